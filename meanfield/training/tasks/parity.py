"""Is a digit odd? A vision transformer, taught on few images or on many.

It stands in for the cats and dogs of sander2022, Figure 5, and of shahbazi2025, Tables
1 and 6: pictures of two kinds, disturbed while networks learn, in part or all of them.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.training._task import Items, Split, tasks
from meanfield.training.networks import (
    Encoder,
    Perceptron,
    Variant,
    before,
    self_attention,
)

from ._mnist import BLACK, SIDE, digits, fold
from .patches import AbstractPatchTask, PatchNetwork, moved, refuse_patch, turned

D, WIDTH, HEADS = 64, 16, 4
SHIFT, TURN = 3, 15.0  # pixels, degrees: how far images are disturbed
TAUGHT = 4000  # images in an epoch, however many are different


@dataclass(frozen=True)
class Parity(AbstractPatchTask):
    """Digits of MNIST, by a vision transformer: odd or even?

    Attributes:
        count: different images that teach, a divisor of 4 000: each epoch has 4 000, so
            that all networks take as many steps.
        layers: of attention and a perceptron.
        patch: pixels of the side of a patch; a divisor of 28.

    Raises:
        InvalidInputError: if a number is not positive, images do not fill an epoch, or
            patches of that side do not fill an image.
    """

    count: int = TAUGHT
    layers: int = 4
    patch: int = 4

    def __post_init__(self) -> None:
        if self.count < 1 or TAUGHT % self.count or self.layers < 1:
            raise InvalidInputError(
                f"`count` must divide {TAUGHT}, and `layers` be positive; got "
                f"{self.count} and {self.layers}."
            )
        refuse_patch(self.patch)

    @override
    def items(self) -> Items:
        images, labels = digits()
        return {"image": images, "label": (labels % 2).astype(np.int32)}

    @override
    def split(self, seed: int) -> Split:
        train, test = fold(seed)
        return Split(np.tile(train[: self.count], TAUGHT // self.count), test)

    @override
    def network(self, key: PRNGKey, variant: Variant) -> PatchNetwork:
        keys = jax.random.split(key, 4 + 2 * self.layers)
        parts = []
        for one, other in keys[4:].reshape(self.layers, 2):
            parts += [
                self_attention(one, variant, d=D, k=WIDTH, n_heads=HEADS),
                Perceptron(other, d=D, width=D),
            ]
        n = (SIDE // self.patch) ** 2 + 1
        return PatchNetwork(
            embedding=eqx.nn.Linear(self.patch**2, D, key=keys[0]),
            first=jax.random.normal(keys[1], (1, D)),
            places=jax.random.normal(keys[2], (n, D)),
            encoder=Encoder(tuple(before(part, D) for part in parts)),
            norm=eqx.nn.LayerNorm(D),
            reader=eqx.nn.Linear(D, 2, key=keys[3]),
        )

    @override
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        first, second = jax.random.split(key)
        return moved(turned(image, first, TURN, BLACK), second, SHIFT, BLACK)


tasks.register("parity")(Parity)
