"""What a family of networks must tell: its sizes, heads, embedding and layers."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from meanfield._registry import Registry, suggestion
from meanfield.errors import InputFileError

from .blocks import HeadWeights, Parts
from .checkpoint import CONFIG, Checkpoint

SHOWN = 40  # characters that a message repeats of a config


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

    @abc.abstractmethod
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        """What each part of a layer adds to states that enter it."""


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
        shown = str(stated or named)[:SHOWN]
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` is of the architecture `{shown}`, which "
            f"is not read here; {suggestion(shown, architectures)}"
        )
    return kin[0]


def read(checkpoint: Checkpoint) -> AbstractArchitecture:
    """The network of a checkpoint.

    Raises:
        InputFileError: if its architecture is not registered, or its config is not
            that of the architecture, or asks for sizes that no array has.

    Examples:
        >>> from meanfield import models
        >>> models.read(models.load("minilm")).sizes.n_layers
        6
    """
    network = architectures[model_type(checkpoint)](checkpoint)
    _check_sizes(network.sizes, checkpoint)
    return network


def _check_sizes(sizes: Sizes, checkpoint: Checkpoint) -> None:
    """Compares a config with the arrays, before tokens and lists are made by it.

    Raises:
        InputFileError: if no array has the dimension, or there are fewer than layers.
    """
    entries = checkpoint.entries.values()
    axes = {axis for entry in entries for axis in entry.shape}
    if sizes.dimension not in axes or sizes.n_layers > len(entries):
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` asks for {sizes.n_layers} layers in "
            f"dimension {sizes.dimension}, and the arrays of `{checkpoint.weights}` "
            "have other shapes; the two do not belong together."
        )
