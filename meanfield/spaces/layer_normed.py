"""The image of a layer norm."""

import jax.numpy as jnp
from jaxtyping import Array
from typing_extensions import override

from meanfield.errors import InvalidInputError

from ._space import AbstractSpace, Vectors, spaces
from .sphere import Sphere


class LayerNormed(AbstractSpace):
    r"""Vectors with mean zero and variance one over their $d$ entries.

    This is a sphere of radius $\sqrt d$ in a hyperplane, and the image of a layer norm
    without gain.

    Examples:
        >>> from meanfield.spaces import LayerNormed
        >>> print(LayerNormed().project(jnp.array([1.0, 2.0, 6.0])))
        [-0.9258 -0.4629  1.3887]
    """

    @override
    def scale(self, d: int) -> float:
        return d**0.5

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        return _sphere(x).tangent(x, _centre(v))

    @override
    def project(self, x: Vectors) -> Array:
        return _sphere(x).project(_centre(x))

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        return _sphere(x).difference(x, y)

    @override
    def distance(self, x: Vectors, y: Vectors) -> Array:
        return _sphere(x).distance(x, y)

    @override
    def check_dimension(self, d: int) -> None:
        if d < 3:
            raise InvalidInputError(
                "A layer norm needs d ≥ 3, since its image is finite in lower "
                f"dimensions; got {d}."
            )


spaces.register("layer-norm")(LayerNormed)


def _centre(x: Vectors) -> Array:
    return jnp.asarray(x) - jnp.mean(x, axis=-1, keepdims=True)


def _sphere(x: Vectors) -> Sphere:
    return Sphere(x.shape[-1] ** 0.5)
