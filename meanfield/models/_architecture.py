"""Network architectures: their interface, their registry, and the forward pass."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from meanfield._registry import Registry
from meanfield.errors import InputFileError

from .blocks import HeadWeights, Parts
from .checkpoint import CONFIG, Checkpoint

EXCERPT_LENGTH = 40  # characters of a config that a message shows


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
    """Base class of networks that are read from a checkpoint and evaluated by NumPy.

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
        """The states with which tokens enter the first layer."""

    @abc.abstractmethod
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        """The displacement of the states `x` by each part of a layer."""


architectures: Registry[Callable[[Checkpoint], AbstractArchitecture]] = Registry(
    "architecture"
)


def classes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of classes under `architectures` in the config; ignores non-strings."""
    config_value = checkpoint.config.get("architectures")
    entries = config_value if isinstance(config_value, list) else [config_value]
    return tuple(name for name in entries if isinstance(name, str))


def model_type(checkpoint: Checkpoint) -> str:
    """The registered name of a checkpoint's architecture.

    It is the `model_type` of the config or, in old configs, follows from a class such
    as `BertModel`.

    Raises:
        InputFileError: if the config names no registered architecture.
    """
    config_type = checkpoint.config.get("model_type")
    class_name = next(iter(classes(checkpoint)), "nothing")
    matches = [
        name
        for name in architectures
        if name == config_type
        or (not config_type and class_name.lower().startswith(name))
    ]
    if not matches:
        excerpt = str(config_type or class_name)[:EXCERPT_LENGTH]
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` names the architecture `{excerpt}`, which "
            f"is not registered; known: {', '.join(architectures)}. A plugin can "
            "register it: add `--plugin FILE.py`, as docs/extending.md shows."
        )
    return matches[0]


def read(checkpoint: Checkpoint) -> AbstractArchitecture:
    """The network of a checkpoint.

    Raises:
        InputFileError: if its architecture is not registered, its config does not fit
            the architecture, or the sizes in the config do not fit the arrays.

    Examples:
        >>> from meanfield import models
        >>> models.read(models.load("minilm")).sizes.n_layers
        6
    """
    network = architectures[model_type(checkpoint)](checkpoint)
    _check_sizes(network.sizes, checkpoint)
    return network


def _check_sizes(sizes: Sizes, checkpoint: Checkpoint) -> None:
    """Checks the sizes in a config against the arrays, before anything is allocated.

    Raises:
        InputFileError: if no array has an axis of the stated dimension, or there are
            fewer arrays than layers.
    """
    entries = checkpoint.entries.values()
    axes = {axis for entry in entries for axis in entry.shape}
    if sizes.dimension not in axes or sizes.n_layers > len(entries):
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` states {sizes.n_layers} layers in "
            f"dimension {sizes.dimension}, but the arrays of `{checkpoint.weights}` "
            "have other shapes; the two files do not belong together."
        )


def hidden_states(
    checkpoint: Checkpoint, text: str
) -> tuple[Float[np.ndarray, "layers n d"], tuple[Parts, ...]]:
    """The network's hidden states before and after each layer, and each layer's parts.

    The parts of a layer add up to its change of the states. Everything, including
    LayerNorms and MLPs, is computed in double precision.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            activation that is not known.
        InvalidInputError: if the text has more tokens than the network has positions.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from meanfield import models
        >>> states, parts = models.hidden_states(models.load("minilm"), "Alice sat.")
        >>> states.shape, len(parts)
        ((7, 5, 384), 6)
        >>> bool(np.allclose(states[0] + parts[0].displacement, states[1]))
        True
    """
    network = read(checkpoint)
    sizes = network.sizes
    ids = checkpoint.encode(text, limit=sizes.max_positions).ids
    states, parts = [network.embedding(ids)], []
    for layer in range(sizes.n_layers):
        parts.append(network.parts(layer, states[-1]))
        states.append(states[-1] + parts[-1].displacement)
    return np.stack(states), tuple(parts)
