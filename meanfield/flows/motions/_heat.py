r"""The heat flow on cells, by sums of non-negative terms.

The heat flow is $e^{\tau T}$, where the three-point matrix $T$ has the fluxes between
neighbouring cells; it is exact in time for steps of any length. It is summed by
uniformisation, $e^{-x}\sum_k \frac{x^k}{k!} N^k$ with $N = I + T/q \ge 0$ and
$x = q\tau$, where $q$ is the largest rate at which mass leaves a cell. Every term is
non-negative, so masses stay non-negative and tails keep their relative precision. With
the eigenvectors of $T$, rounding of the largest mass would swamp the tails, and
attention to far tokens would amplify this error.

Source: Jensen 1953 (Moler and Van Loan 2003 compare methods for matrix exponentials).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

CHUNK = 64.0  # largest x of one sum, whose first weight e^-x must not underflow


class Stencil(NamedTuple):
    r"""The matrix $N = I + T/q$ along one axis.

    Attributes:
        stay: the fraction of each cell's mass that stays.
        up: the fraction that moves to the next cell, after the last one to the first.
        down: the fraction that moves to the previous cell.
        fastest: $q$, for unit diffusivity.
    """

    stay: Float[Array, " n"]
    up: Float[Array, " n"]
    down: Float[Array, " n"]
    fastest: Float[Array, ""]

    @classmethod
    def from_conductances(
        cls, conductances: Float[Array, " faces"], volumes: Float[Array, " n"]
    ) -> "Stencil":
        """The stencil of heat fluxes between cells.

        Args:
            conductances: areas of the faces, divided by the distances between the
                centres of their cells.
            volumes: volumes of the cells.
        """
        up, down = conductances[1:] / volumes, conductances[:-1] / volumes
        fastest = jnp.max(up + down)
        up, down = up / fastest, down / fastest
        return cls(jnp.maximum(1 - up - down, 0), up, down, fastest)

    def absorb(self) -> "Stencil":
        """The stencil with one more cell at each end, which mass does not leave."""
        fractions = (jnp.pad(self.up, 1), jnp.pad(self.down, 1))
        stay = jnp.pad(self.stay, 1, constant_values=1)
        return Stencil(stay, *fractions, self.fastest)

    def apply(self, u: Float[Array, "*cells"]) -> Float[Array, "*cells"]:
        """The product $Nu$ along the last axis."""
        lead = (None,) * (u.ndim - 1)
        from_below = jnp.roll(self.up[lead] * u, 1, axis=-1)
        from_above = jnp.roll(self.down[lead] * u, -1, axis=-1)
        return self.stay[lead] * u + from_below + from_above

    def spread(
        self, u: Float[Array, "*cells"], area: Float[Array, ""]
    ) -> Float[Array, "*cells"]:
        r"""The heat flow up to the time `area` $= \kappa t$ of masses by layer."""
        return _conserve_mass(_exponential(self, u, self.fastest * area), u)


def _exponential(
    stencil: Stencil, u: Float[Array, "*cells"], x: Float[Array, ""]
) -> Float[Array, "*cells"]:
    r"""$e^{x(N - I)}u$, as a product of exponentials with $x$ up to `CHUNK` each."""
    count = jnp.maximum(jnp.ceil(x / CHUNK), 1)
    part = x / count
    # After the term `last`, Poisson weights are below rounding for means up to CHUNK.
    last = jnp.ceil(part + 10 * jnp.sqrt(part) + 20).astype(int)

    def add(k: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        total, term, weight = carry
        term, weight = stencil.apply(term), weight * part / k
        return total + weight * term, term, weight

    def apply_part(_: Array, u: Array) -> Array:
        first = jnp.exp(-part)
        return jax.lax.fori_loop(1, last + 1, add, (first * u, u, first))[0]

    return jax.lax.fori_loop(0, count.astype(int), apply_part, u)


def _conserve_mass(new: Float[Array, "*cells"], old: Float[Array, "*cells"]) -> Array:
    """Scales `new` to the mass of `old` in each layer, which undoes rounding errors."""
    axes = tuple(range(1, new.ndim))
    old_mass, new_mass = (jnp.sum(u, axis=axes, keepdims=True) for u in (old, new))
    return new * jnp.where(
        new_mass > 0, old_mass / jnp.where(new_mass > 0, new_mass, 1), 1
    )
