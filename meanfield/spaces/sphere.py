"""Spheres."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.errors import InvalidInputError

from ._space import AbstractSpace, Vectors, spaces


class Sphere(AbstractSpace):
    r"""The sphere $\{|x| = r\}$ around the origin.

    Attributes:
        radius: the radius $r$; $\sqrt d$ for the output of an RMS norm.

    Raises:
        InvalidInputError: if the radius is not positive.

    Examples:
        >>> from meanfield.spaces import Sphere
        >>> print(Sphere().distance(jnp.array([1.0, 0.0]), jnp.array([-1.0, 0.0])))
        3.14159...
    """

    radius: float = eqx.field(static=True, default=1.0)

    numbers: ClassVar[str] = "a radius, or rms for the square root of d"

    @classmethod
    @override
    def from_text(cls, text: str, d: int) -> "Sphere":
        return cls(d**0.5 if text == "rms" else float(text))

    def __check_init__(self) -> None:
        if not (isinstance(self.radius, int | float) and 0 < self.radius < math.inf):
            raise InvalidInputError(
                f"`radius` must be positive and finite; got {self.radius!r}."
            )

    @override
    def scale(self, d: int) -> float:
        return self.radius

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        unit, v = _direction(x), jnp.asarray(v)
        return v - unit * jnp.sum(unit * v, axis=-1, keepdims=True)

    @override
    def project(self, x: Vectors) -> Array:
        return self.radius * _direction(x)

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        way = self.tangent(y, x)
        length = _norm(way)
        share = self.distance(x, y)[..., None] / jnp.where(length > 0, length, 1)
        return way * share

    @override
    def distance(self, x: Vectors, y: Vectors) -> Array:
        """The length of the arc, exact for close and for opposite points, too."""
        near, far = _norm(x - y)[..., 0], _norm(x + y)[..., 0]
        return 2 * self.radius * jnp.atan2(near, far)

    @override
    def check_dimension(self, d: int) -> None:
        if d < 2:
            raise InvalidInputError(
                f"A sphere needs d ≥ 2, since tokens could not move in d = 1; got {d}."
            )


def _direction(x: Vectors) -> Float[Array, "... d"]:
    """The vectors divided by their norms, without overflow; NaN for the origin."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    ratios = jnp.asarray(x) / jnp.where(largest > 0, largest, 1)
    return ratios / jnp.linalg.norm(ratios, axis=-1, keepdims=True)


def _norm(x: Vectors) -> Float[Array, "... 1"]:
    """The norms, with derivative zero at the origin."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    is_zero = largest == 0
    ratios = jnp.where(is_zero, 1, jnp.asarray(x) / jnp.where(is_zero, 1, largest))
    return largest * jnp.linalg.norm(ratios, axis=-1, keepdims=True)


spaces.register("sphere")(Sphere)
