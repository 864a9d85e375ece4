"""Checkpoints with the attention heads of networks trained by `meanfield train`.

The blocks of such networks also have normalisations and MLPs. The checkpoint holds only
their heads, which suffice for spectra and for the flow of the attention.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import pydantic
from jaxtyping import Float, Int
from typing_extensions import override

from meanfield.errors import InputFileError, UnsupportedError

from ._architecture import AbstractArchitecture, Sizes, architectures
from .blocks import HeadWeights, Parts
from .checkpoint import CONFIG, Checkpoint

NAME = "meanfield"
ARRAYS = "Q", "K", "value_projection", "output_projection"  # arrays of a layer, by head
OLD_ARRAYS = "Q", "K", "reading", "writing"  # in models exported before version 0.3


@final
class TrainedConfig(pydantic.BaseModel):
    """The fields of the config that are used."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    n_layers: pydantic.PositiveInt
    n_heads: pydantic.PositiveInt
    dimension: pydantic.PositiveInt
    head_dimension: pydantic.PositiveInt


@final
@dataclass(frozen=True)
class TrainedNetwork(AbstractArchitecture):
    """The heads of a trained network that `meanfield train export` wrote.

    Examples:
        >>> from meanfield import models
        >>> "meanfield" in models.architectures
        True
    """

    checkpoint: Checkpoint
    config: TrainedConfig

    @staticmethod
    def from_checkpoint(checkpoint: Checkpoint) -> "TrainedNetwork":
        """Checks the config of a checkpoint, and returns its network.

        Raises:
            InputFileError: if the config lacks a size.
        """
        try:
            config = TrainedConfig.model_validate(dict(checkpoint.config))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise InputFileError(
                f"`{checkpoint.folder / CONFIG}` was not written by `meanfield train "
                f"export` ({first['loc']}: {first['msg']}). Export the network again."
            ) from error
        return TrainedNetwork(checkpoint, config)

    @property
    @override
    def sizes(self) -> Sizes:
        return Sizes(**dict(self.config), vocabulary=0, max_positions=0)

    @override
    def heads(self, layer: int) -> HeadWeights:
        c = self.config
        h, k, d = c.n_heads, c.head_dimension, c.dimension
        is_old = array_name(layer, OLD_ARRAYS[-1]) in self.checkpoint.entries
        arrays = OLD_ARRAYS if is_old else ARRAYS
        names = [array_name(layer, array) for array in arrays]
        Q, K, W, O = self.checkpoint.arrays(names)
        shapes = [array.shape for array in (Q, K, W, O)]
        if shapes != [(h, k, d)] * 3 + [(h, d, k)]:
            raise InputFileError(
                f"The arrays of layer {layer} in `{self.checkpoint.weights}` have the "
                f"shapes {shapes}, but {CONFIG} states {h} heads of dimension {k} in "
                f"dimension {d}; the two files do not belong together."
            )
        zeros = np.zeros((h, k))
        return HeadWeights(
            Q, K, zeros, zeros, W, zeros, O, output_bias=np.zeros((h, d))
        )

    @override
    def embedding(self, ids: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        raise self._unsupported_error("words")

    @override
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        raise self._unsupported_error("norms and MLPs")

    def _unsupported_error(self, part: str) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.checkpoint.folder}` has only the heads of a trained network, no "
            f"{part}. Use `meanfield models inspect` or, in Python, `models.layers`."
        )


def array_name(layer: int, array: str) -> str:
    """The name of a layer's array in the weights file."""
    return f"layers.{layer}.{array}"


architectures.register(NAME)(TrainedNetwork.from_checkpoint)
