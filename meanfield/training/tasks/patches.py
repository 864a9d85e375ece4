r"""Task `patches`: MNIST digits as square patches, with one attention block.

Source: sander2022, Figure 6; shahbazi2025, Figure 5.
"""

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.measures import Points
from meanfield.training._task import (
    AbstractTask,
    Sample,
    Samples,
    Split,
    classification_measures,
    split_fold,
    tasks,
)
from meanfield.training.networks import Encoder, Variant, pre_norm_block, self_attention
from meanfield.training.networks._blocks import apply_linear
from meanfield.training.networks._sequence import sequence_measure

from ._mnist import BLACK, COUNT, SIDE, digits

D, WIDTH, CLASSES = 128, 64, 10


def patches_of(
    image: Float[Array, "side side"], p: int
) -> Float[Array, "patches pixels"]:
    """The patches of `p` × `p` pixels of an image, row by row, as flat vectors."""
    m = image.shape[0] // p
    return image.reshape(m, p, m, p).swapaxes(1, 2).reshape(m * m, p * p)


def shift_image(
    image: Float[Array, "side side"], key: PRNGKey, max_shift: int, black: float
) -> Float[Array, "side side"]:
    """An image moved by up to `max_shift` pixels in each direction; gaps are black."""
    wide = jnp.pad(image, max_shift, constant_values=black)
    start = jax.random.randint(key, (2,), 0, 2 * max_shift + 1)
    return jax.lax.dynamic_slice(wide, (start[0], start[1]), image.shape)


def rotate_image(
    image: Float[Array, "side side"], key: PRNGKey, max_angle: float, black: float
) -> Float[Array, "side side"]:
    """An image turned about its centre by up to `max_angle` degrees; gaps are black."""
    angle = jnp.deg2rad(
        jax.random.uniform(key, (), minval=-max_angle, maxval=max_angle)
    )
    middle = (image.shape[0] - 1) / 2
    row, column = jnp.indices(image.shape, image.dtype) - middle
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    places = [cosine * row - sine * column, sine * row + cosine * column]
    return map_coordinates(image, [p + middle for p in places], order=1, cval=black)


class PatchNetwork(eqx.Module):
    """Vision transformer: patch embedding, encoder, and linear output.

    Attributes:
        embedding: embedding of the patches.
        class_token: class token that is pooled; empty for pooling by the mean.
        position_embedding: embedding of the positions of the tokens.
        encoder: attention blocks.
        norm: norm before the output layer.
        output_layer: output layer, with a score for each class.
    """

    embedding: eqx.nn.Linear
    class_token: Float[Array, "c d"]
    position_embedding: Float[Array, "n d"]
    encoder: Encoder
    norm: eqx.nn.LayerNorm
    output_layer: eqx.nn.Linear

    def __call__(self, image: Float[Array, "side side"]) -> Float[Array, " classes"]:
        """The score of each class."""
        x = self.encoder(self.tokens(image)).tokens.x
        read = x[0] if len(self.class_token) else jnp.mean(x, axis=0)
        return self.output_layer(self.norm(read))

    def tokens(self, image: Float[Array, "side side"]) -> Points:
        """The tokens before the first block."""
        patches = patches_of(image, math.isqrt(int(self.embedding.in_features)))
        embeddings = apply_linear(self.embedding, patches)
        x = jnp.concatenate([self.class_token, embeddings])
        return sequence_measure(x + self.position_embedding)


def check_patch(patch: int) -> None:
    """Raises unless `patch` divides the side of an image.

    Raises:
        InvalidInputError: if it does not.
    """
    if patch < 1 or SIDE % patch:
        raise InvalidInputError(
            f"`patch` must divide {SIDE}, the side of an image; got {patch}."
        )


class AbstractPatchTask(AbstractTask):
    """Base class of classification tasks on images with a `PatchNetwork`."""

    @abc.abstractmethod
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        """A randomly perturbed image, for training."""

    @override
    def measures(
        self, network: eqx.Module, sample: Sample, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        assert isinstance(network, PatchNetwork)
        image, label = sample["image"], sample["label"]
        scores = network(image if key is None else self.perturb(image, key))
        return classification_measures(scores, label)

    @override
    def plans(
        self, network: eqx.Module, sample: Sample
    ) -> Float[Array, "layers heads n n"] | None:
        assert isinstance(network, PatchNetwork)
        return network.encoder.plans(network.tokens(sample["image"]))


@dataclass(frozen=True)
class Patches(AbstractPatchTask):
    """Classification of MNIST digits, cut into patches.

    Attributes:
        patch: side of a patch in pixels, a divisor of 28.
        pooling: pooling of the tokens: `class` (an extra first token) or `mean`.
        shift: largest shift of training images, in pixels in each direction.

    Raises:
        InvalidInputError: if `patch` does not divide 28, or `shift` is not below 28.
    """

    patch: int = 7
    pooling: Literal["class", "mean"] = "class"
    shift: int = 0

    def __post_init__(self) -> None:
        check_patch(self.patch)
        if not 0 <= self.shift < SIDE:
            raise InvalidInputError(
                f"`shift` must be from 0 to {SIDE - 1} pixels; got {self.shift}."
            )

    @override
    def samples(self) -> Samples:
        images, labels = digits()
        return {"image": images, "label": labels.astype(np.int32)}

    @override
    def split(self, seed: int) -> Split:
        return split_fold(COUNT, seed)

    @override
    def network(self, key: PRNGKey, variant: Variant) -> PatchNetwork:
        keys = jax.random.split(key, 5)
        n_first = int(self.pooling == "class")
        n = (SIDE // self.patch) ** 2 + n_first
        attention = self_attention(keys[0], variant, d=D, k=WIDTH, n_heads=1)
        return PatchNetwork(
            embedding=eqx.nn.Linear(self.patch**2, D, key=keys[1]),
            class_token=jax.random.normal(keys[2], (n_first, D)),
            position_embedding=jax.random.normal(keys[3], (n, D)),
            encoder=Encoder((pre_norm_block(attention, D),)),
            norm=eqx.nn.LayerNorm(D),
            output_layer=eqx.nn.Linear(D, CLASSES, key=keys[4]),
        )

    @override
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        return shift_image(image, key, self.shift, BLACK)


tasks.register("patches")(Patches)
