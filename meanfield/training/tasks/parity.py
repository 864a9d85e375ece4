"""Task `parity`: is a digit odd? A vision transformer with few or many training images.

It replaces the cats and dogs of sander2022, Figure 5, and of shahbazi2025, Tables 1 and
6. As in both papers, there are two classes, and all or some of the training images are
used, randomly perturbed.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError
from meanfield.training._task import Samples, Split, split_fold, tasks
from meanfield.training.networks import Variant, pre_norm_encoder

from ._mnist import BLACK, COUNT, SIDE, digits
from .patches import (
    AbstractPatchTask,
    PatchNetwork,
    check_patch,
    rotate_image,
    shift_image,
)

D, WIDTH, HEADS = 64, 16, 4
SHIFT, TURN = 3, 15.0  # largest shift in pixels, and largest rotation in degrees
EPOCH_SIZE = 4000  # number of samples in an epoch, for any number of distinct images


@dataclass(frozen=True)
class Parity(AbstractPatchTask):
    """Classification of MNIST digits as odd or even, by a vision transformer.

    Attributes:
        count: number of distinct training images, a divisor of 4000; an epoch always
            has 4000 samples, so the number of steps does not depend on `count`.
        layers: number of layers, each an attention and a perceptron.
        patch: side of a patch in pixels, a divisor of 28.

    Raises:
        InvalidInputError: if a number is not positive, `count` does not divide 4000, or
            `patch` does not divide 28.
    """

    count: int = EPOCH_SIZE
    layers: int = 4
    patch: int = 4

    def __post_init__(self) -> None:
        if self.count < 1 or EPOCH_SIZE % self.count or self.layers < 1:
            raise InvalidInputError(
                f"`count` must divide {EPOCH_SIZE}, and `layers` must be positive; got "
                f"{self.count} and {self.layers}."
            )
        check_patch(self.patch)

    @override
    def samples(self) -> Samples:
        images, labels = digits()
        return {"image": images, "label": (labels % 2).astype(np.int32)}

    @override
    def split(self, seed: int) -> Split:
        train, test = split_fold(COUNT, seed)
        return Split(np.tile(train[: self.count], EPOCH_SIZE // self.count), test)

    @override
    def network(self, key: PRNGKey, variant: Variant) -> PatchNetwork:
        keys = jax.random.split(key, 4 + 2 * self.layers)
        sizes = {"d": D, "k": WIDTH, "n_heads": HEADS, "width": D}
        n = (SIDE // self.patch) ** 2 + 1
        return PatchNetwork(
            embedding=eqx.nn.Linear(self.patch**2, D, key=keys[0]),
            class_token=jax.random.normal(keys[1], (1, D)),
            position_embedding=jax.random.normal(keys[2], (n, D)),
            encoder=pre_norm_encoder(keys[4:], variant, **sizes),
            norm=eqx.nn.LayerNorm(D),
            output_layer=eqx.nn.Linear(D, 2, key=keys[3]),
        )

    @override
    def perturb(
        self, image: Float[Array, "side side"], key: PRNGKey
    ) -> Float[Array, "side side"]:
        first, second = jax.random.split(key)
        return shift_image(
            rotate_image(image, first, TURN, BLACK), second, SHIFT, BLACK
        )


tasks.register("parity")(Parity)
