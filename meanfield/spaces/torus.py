"""Flat tori."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from typing_extensions import override

from meanfield._typing import PRNGKey
from meanfield.errors import InvalidInputError

from ._space import AbstractSpace, Vectors, spaces


class Torus(AbstractSpace):
    r"""The box $\prod_k [0, p_k)$, each of whose sides is glued to the opposite one.

    Attributes:
        periods: the lengths $p_k$ of the sides, or one length for all.

    Raises:
        InvalidInputError: if a period is not positive.

    Examples:
        >>> from meanfield.spaces import Torus
        >>> print(Torus(1.0).distance(jnp.array([0.1]), jnp.array([0.9])))
        0.2
    """

    periods: float | tuple[float, ...] = eqx.field(static=True, default=1.0)
    numbers: ClassVar[str] = "one period, or one for each coordinate"

    @classmethod
    @override
    def from_text(cls, text: str, d: int) -> "Torus":
        return cls(tuple(map(float, text.split(","))))

    def __check_init__(self) -> None:
        if not all(0 < period < float("inf") for period in self._lengths):
            raise InvalidInputError(
                f"`periods` must be positive and finite; got {self.periods}."
            )

    @property
    def _lengths(self) -> tuple[float, ...]:
        return self.periods if isinstance(self.periods, tuple) else (self.periods,)

    @property
    @override
    def is_compact(self) -> bool:
        return True

    @override
    def tangent(self, x: Vectors, v: Vectors) -> Array:
        del x
        return jnp.asarray(v)

    @override
    def project(self, x: Vectors) -> Array:
        x, periods = jnp.asarray(x), self._periods(x)
        return x - periods * jnp.floor(x / periods)

    @override
    def difference(self, x: Vectors, y: Vectors) -> Array:
        x, periods = jnp.asarray(x), self._periods(x)
        return (x - y) - periods * jnp.round((x - y) / periods)

    @override
    def distance(self, x: Vectors, y: Vectors) -> Array:
        return jnp.linalg.norm(self.difference(x, y), axis=-1)

    @override
    def uniform(self, key: PRNGKey, n: int, d: int) -> Array:
        self.check_dimension(d)
        return self._periods(jnp.zeros(d)) * jax.random.uniform(key, (n, d))

    @override
    def check_dimension(self, d: int) -> None:
        if len(self._lengths) not in (1, d):
            raise InvalidInputError(
                f"`periods` must hold one length, or one for each of the {d} "
                f"coordinates; got {len(self._lengths)}."
            )

    def _periods(self, x: Vectors) -> Array:
        """The lengths of the sides, of the shape of `x`."""
        lengths = jnp.asarray(self._lengths, jnp.asarray(x).dtype)
        return jnp.broadcast_to(lengths, np.shape(x))


spaces.register("torus")(Torus)
