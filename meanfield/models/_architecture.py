"""What a family of networks must tell: its sizes, its heads, its embedding."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from meanfield._registry import Registry, suggestion
from meanfield.errors import InputFileError

from .checkpoint import CONFIG, Checkpoint


class Sizes(NamedTuple):
    """The sizes of a network; `dimension` is $d$, `head_dimension` is $d_k$.

    Examples:
        >>> from meanfield import models
        >>> sizes = models.read(models.load("minilm")).sizes
        >>> sizes.n_layers, sizes.n_heads, sizes.dimension, sizes.head_dimension
        (6, 12, 384, 32)
    """

    n_layers: int
    n_heads: int
    dimension: int
    head_dimension: int
    vocabulary: int
    max_positions: int


@final
@dataclass(frozen=True)
class HeadWeights:
    r"""The heads of one attention layer, in double precision.

    Head $h$ sends a token $x$ to $O_h \sum_j p_j (W_h y_j + b_h) + o_h$ with
    $p \propto \exp((Q_h x + q_h) \cdot (K_h y_j + k_h) / \epsilon)$, and the layer is
    the sum over heads.

    Attributes:
        Q: query matrices $Q_h$.
        K: key matrices $K_h$.
        query_bias: $q_h$.
        key_bias: $k_h$; it shifts all scores of a query alike, so softmax ignores it.
        reading: the value projection $W_h$.
        reading_bias: $b_h$.
        writing: the columns $O_h$ of the output projection.
        writing_bias: $o_h$, the output bias divided by the number of all heads.

    Examples:
        >>> from meanfield import models
        >>> heads = models.read(models.load("minilm")).heads(0)
        >>> heads.Q.shape, heads.value.shape, heads.subset([0, 3]).Q.shape
        ((12, 32, 384), (12, 384, 384), (2, 32, 384))
        >>> round(heads.epsilon**2)  # the dimension of a head
        32
    """

    Q: Float[np.ndarray, "h k d"]
    K: Float[np.ndarray, "h k d"]
    query_bias: Float[np.ndarray, "h k"]
    key_bias: Float[np.ndarray, "h k"]
    reading: Float[np.ndarray, "h k d"]
    reading_bias: Float[np.ndarray, "h k"]
    writing: Float[np.ndarray, "h d k"]
    writing_bias: Float[np.ndarray, "h d"]

    @property
    def epsilon(self) -> float:
        r"""The scale of the scores, $\sqrt{d_k}$."""
        return float(np.sqrt(self.Q.shape[-2]))

    @property
    def value(self) -> Float[np.ndarray, "h d d"]:
        r"""The values $V_h = O_h W_h$, of rank at most $d_k$."""
        return self.writing @ self.reading

    @property
    def offset(self) -> Float[np.ndarray, "h d"]:
        r"""The constants $O_h b_h + o_h$, since the weights $p$ sum to one."""
        return np.einsum("hdk,hk->hd", self.writing, self.reading_bias) + (
            self.writing_bias
        )

    def subset(self, heads: Sequence[int]) -> "HeadWeights":
        """Some of the heads; each keeps its own share of the output bias."""
        chosen = list(heads)
        return HeadWeights(
            **{part.name: getattr(self, part.name)[chosen] for part in fields(self)}
        )


class AbstractArchitecture(abc.ABC):
    """A network read from a checkpoint, with NumPy only.

    Examples:
        >>> from meanfield import models
        >>> network = models.read(models.load("minilm"))
        >>> isinstance(network, models.AbstractArchitecture), type(network).__name__
        (True, 'Bert')
    """

    @property
    @abc.abstractmethod
    def sizes(self) -> Sizes:
        """The sizes that the config states."""

    @abc.abstractmethod
    def heads(self, layer: int) -> HeadWeights:
        """All heads of one layer, counted from zero."""

    @abc.abstractmethod
    def embedding(self, ids: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """The states of tokens as the first layer meets them."""


architectures: Registry[Callable[[Checkpoint], AbstractArchitecture]] = Registry(
    "architecture"
)


def classes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The classes that the config names; of a list, what is text."""
    stated = checkpoint.config.get("architectures")
    listed = stated if isinstance(stated, list) else [stated]
    return tuple(name for name in listed if isinstance(name, str))


def model_type(checkpoint: Checkpoint) -> str:
    """The registered name of a checkpoint's architecture.

    It is the config's `model_type`; old configs have only a class such as `BertModel`.

    Raises:
        InputFileError: if the config names no architecture that is registered.
    """
    stated = checkpoint.config.get("model_type")
    named = next(iter(classes(checkpoint)), "nothing")
    kin = [
        name
        for name in architectures
        if name == stated or (not stated and named.lower().startswith(name))
    ]
    if not kin:
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` is of the architecture "
            f"`{stated or named}`, which is not read here; "
            f"{suggestion(str(stated or named), architectures)}"
        )
    return kin[0]


def read(checkpoint: Checkpoint) -> AbstractArchitecture:
    """The network of a checkpoint.

    Raises:
        InputFileError: if its architecture is not registered, or its config is not
            that of the architecture.

    Examples:
        >>> from meanfield import models
        >>> models.read(models.load("minilm")).sizes.n_layers
        6
    """
    return architectures[model_type(checkpoint)](checkpoint)
