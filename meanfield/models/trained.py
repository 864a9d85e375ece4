"""The heads of networks that `meanfield train` has taught.

Blocks of such networks have norms before or after their parts, and perceptrons; a
checkpoint has their heads alone, for spectra and for the flow of the attention.
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
ARRAYS = "Q", "K", "reading", "writing"  # of each layer, heads first


@final
class TrainedConfig(pydantic.BaseModel):
    """What the config says and we rely on."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    n_layers: pydantic.PositiveInt
    n_heads: pydantic.PositiveInt
    dimension: pydantic.PositiveInt
    head_dimension: pydantic.PositiveInt


@final
@dataclass(frozen=True)
class Trained(AbstractArchitecture):
    """Heads of a trained network; `meanfield train export` writes its folder.

    Examples:
        >>> from meanfield import models
        >>> "meanfield" in models.architectures
        True
    """

    checkpoint: Checkpoint
    config: TrainedConfig

    @staticmethod
    def from_checkpoint(checkpoint: Checkpoint) -> "Trained":
        """The heads, once their config is checked.

        Raises:
            InputFileError: if the config lacks a size.
        """
        try:
            config = TrainedConfig.model_validate(dict(checkpoint.config))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise InputFileError(
                f"`{checkpoint.folder / CONFIG}` is not one that `meanfield train "
                f"export` wrote: {first['loc']}: {first['msg']}; export it again."
            ) from error
        return Trained(checkpoint, config)

    @property
    @override
    def sizes(self) -> Sizes:
        c = self.config
        return Sizes(
            n_layers=c.n_layers,
            n_heads=c.n_heads,
            dimension=c.dimension,
            head_dimension=c.head_dimension,
            vocabulary=0,
            max_positions=0,
        )

    @override
    def heads(self, layer: int) -> HeadWeights:
        c = self.config
        h, k, d = c.n_heads, c.head_dimension, c.dimension
        names = [array_name(layer, array) for array in ARRAYS]
        Q, K, reading, writing = self.checkpoint.arrays(names)
        shapes = [array.shape for array in (Q, K, reading, writing)]
        if shapes != [(h, k, d)] * 3 + [(h, d, k)]:
            raise InputFileError(
                f"The arrays of layer {layer} in `{self.checkpoint.weights}` have the "
                f"shapes {shapes}, but {CONFIG} asks for {h} heads of {k} in dimension "
                f"{d}; the two do not belong together."
            )
        none = np.zeros((h, k))
        return HeadWeights(
            Q, K, none, none, reading, none, writing, writing_bias=np.zeros((h, d))
        )

    @override
    def embedding(self, ids: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        raise self._without("words")

    @override
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        raise self._without("norms and perceptrons")

    def _without(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.checkpoint.folder}` has the heads of a trained network and no "
            f"{what}: `models inspect` reads it, and from Python `models.layers`."
        )


def array_name(layer: int, array: str) -> str:
    """What an array of a layer is called in the file."""
    return f"layers.{layer}.{array}"


architectures.register(NAME)(Trained.from_checkpoint)
