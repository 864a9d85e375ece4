r"""Digits cut into square patches, by one attention block; images moved and turned.

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
from meanfield.training._task import AbstractTask, Item, Items, Split, judged, tasks
from meanfield.training.networks import Encoder, Variant, before, self_attention
from meanfield.training.networks._sequence import in_sequence

from ._mnist import BLACK, SIDE, digits, fold

D, WIDTH, CLASSES = 128, 64, 10


def patches_of(
    image: Float[Array, "side side"], p: int
) -> Float[Array, "patches pixels"]:
    """The squares of `p` pixels that an image is cut into, row by row."""
    m = image.shape[0] // p
    return image.reshape(m, p, m, p).swapaxes(1, 2).reshape(m * m, p * p)


def moved(
    image: Float[Array, "side side"], key: PRNGKey, most: int, black: float
) -> Float[Array, "side side"]:
    """An image moved by up to `most` whole pixels in each direction, over black."""
    wide = jnp.pad(image, most, constant_values=black)
    start = jax.random.randint(key, (2,), 0, 2 * most + 1)
    return jax.lax.dynamic_slice(wide, (start[0], start[1]), image.shape)


def turned(
    image: Float[Array, "side side"], key: PRNGKey, most: float, black: float
) -> Float[Array, "side side"]:
    """An image turned about its middle by up to `most` degrees, over black."""
    angle = jnp.deg2rad(jax.random.uniform(key, (), minval=-most, maxval=most))
    middle = (image.shape[0] - 1) / 2
    row, column = jnp.indices(image.shape, image.dtype) - middle
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    places = [cosine * row - sine * column, sine * row + cosine * column]
    return map_coordinates(image, [p + middle for p in places], order=1, cval=black)


class PatchNetwork(eqx.Module):
    """Patches, a block of attention, and a linear reader of what comes out.

    Attributes:
        embedding: of patches.
        first: a token that is no patch, by which the image is read; or none.
        places: what is added to each token.
        encoder: one block.
        norm: before the reader.
        reader: gives a score to each digit.
    """

    embedding: eqx.nn.Linear
    first: Float[Array, "c d"]
    places: Float[Array, "n d"]
    encoder: Encoder
    norm: eqx.nn.LayerNorm
    reader: eqx.nn.Linear

    def __call__(self, image: Float[Array, "side side"]) -> Float[Array, " classes"]:
        """The score of each digit."""
        x = self.encoder(self.tokens(image)).tokens.x
        read = x[0] if len(self.first) else jnp.mean(x, axis=0)
        return self.reader(self.norm(read))

    def tokens(self, image: Float[Array, "side side"]) -> Points:
        """The tokens as the block meets them."""
        patches = patches_of(image, math.isqrt(int(self.embedding.in_features)))
        embedded = jax.vmap(self.embedding)(patches)
        return in_sequence(jnp.concatenate([self.first, embedded]) + self.places)


def refuse_patch(patch: int) -> None:
    """Refuses a side of patches that do not fill an image.

    Raises:
        InvalidInputError: if it does not divide the side of an image.
    """
    if patch < 1 or SIDE % patch:
        raise InvalidInputError(
            f"`patch` must divide the {SIDE} pixels of a side; got {patch}."
        )


class AbstractPatchTask(AbstractTask):
    """A task on images, by a network that sees them as patches."""

    @abc.abstractmethod
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        """An image as networks see it while they learn."""

    @override
    def measures(
        self, network: eqx.Module, item: Item, key: PRNGKey | None
    ) -> Mapping[str, Float[Array, ""]]:
        assert isinstance(network, PatchNetwork)
        image, label = item["image"], item["label"]
        scores = network(image if key is None else self.perturb(image, key))
        return judged(scores, label)

    @override
    def plans(
        self, network: eqx.Module, item: Item
    ) -> Float[Array, "layers heads n n"] | None:
        assert isinstance(network, PatchNetwork)
        return network.encoder.plans(network.tokens(item["image"]))


@dataclass(frozen=True)
class Patches(AbstractPatchTask):
    """Digits of MNIST, cut into patches: which digit is it?

    Attributes:
        patch: pixels of the side of a patch; a divisor of 28.
        reading: by the first token (`class`), or by the mean of all (`mean`).
        shift: pixels by which images are moved, up to so many in each direction, while
            networks learn.

    Raises:
        InvalidInputError: if patches of that side do not fill an image, or images
            would be moved out of sight.
    """

    patch: int = 7
    reading: Literal["class", "mean"] = "class"
    shift: int = 0

    def __post_init__(self) -> None:
        refuse_patch(self.patch)
        if not 0 <= self.shift < SIDE:
            raise InvalidInputError(
                f"`shift` is from 0 to {SIDE - 1} pixels; got {self.shift}."
            )

    @override
    def items(self) -> Items:
        images, labels = digits()
        return {"image": images, "label": labels.astype(np.int32)}

    @override
    def split(self, seed: int) -> Split:
        return Split(*fold(seed))

    @override
    def network(self, key: PRNGKey, variant: Variant) -> PatchNetwork:
        keys = jax.random.split(key, 5)
        n_first = int(self.reading == "class")
        n = (SIDE // self.patch) ** 2 + n_first
        attention = self_attention(keys[0], variant, d=D, k=WIDTH, n_heads=1)
        return PatchNetwork(
            embedding=eqx.nn.Linear(self.patch**2, D, key=keys[1]),
            first=jax.random.normal(keys[2], (n_first, D)),
            places=jax.random.normal(keys[3], (n, D)),
            encoder=Encoder((before(attention, D),)),
            norm=eqx.nn.LayerNorm(D),
            reader=eqx.nn.Linear(D, CLASSES, key=keys[4]),
        )

    @override
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        return moved(image, key, self.shift, BLACK)


tasks.register("patches")(Patches)
