"""A space: pairs of coordinates on unit circles, the Clifford torus for d = 4."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.spaces import AbstractSpace, Sphere, spaces

CIRCLE = Sphere()
Vectors = Array | np.ndarray


class Circles(AbstractSpace):
    """The product of circles: (x₁, x₂), (x₃, x₄), … have length one."""

    @override
    def scale(self, d: int) -> float:
        del d
        return 1.0

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        return _joined(CIRCLE.tangent(_pairs(x), _pairs(v)))

    @override
    def project(self, x: Vectors) -> Array:
        return _joined(CIRCLE.project(_pairs(x)))

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        return _joined(CIRCLE.difference(_pairs(x), _pairs(y)))

    @override
    def check_dimension(self, d: int) -> None:
        if d % 2:
            raise InvalidInputError(f"`circles` needs an even dimension; got d = {d}.")


def _pairs(x: Vectors) -> Array:
    return jnp.reshape(x, (*np.shape(x)[:-1], -1, 2))


def _joined(pairs: Array) -> Array:
    return jnp.reshape(pairs, (*pairs.shape[:-2], -1))


spaces.register("circles")(Circles)
