r"""Noise on a grid: half a step of the heat flow on either side of each step.

Strang's splitting, of second order. The heat flow is $e^{\tau T}$ for the three-point
$T$ between cell averages, with the walls of the box, exact in time: no step is too
long for it. It is summed by uniformisation, $e^{-x}\sum_k \frac{x^k}{k!} N^k$ with
$N = I + T/q \ge 0$ and $x = q\tau$, where $q$ is the fastest rate of leaving a cell.
Every term is non-negative, so masses stay so without repair, and tails keep
their digits: the eigenvectors of $T$ would bury them under rounding of the
largest mass, which attention to far tokens magnifies again.

Source: Strang 1968, section 3; uniformisation is Jensen 1953 (see Moler and Van Loan
2003 for its standing among exponentials).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.cells import centres, widths
from meanfield.flows.stepping import AbstractGridSolver, Step
from meanfield.linalg import eigh
from meanfield.measures import TURN, AbstractBox, Grid, GridState

CHUNK = 64.0  # changes of cell in one sum: its first weight, e^-64, is still a number
Edges = tuple[Float[Array, "..."], ...]


class Strang(AbstractGridSolver):
    """A step of transport between two half steps of heat.

    Attributes:
        inner: moves the masses and the box.
        kappa: the diffusivity.
        edges: of the cells along each axis.
        box: whose walls absorb heat, or do not.
    """

    inner: AbstractGridSolver
    kappa: Float[Array, ""]
    edges: Edges
    box: AbstractBox

    @override
    def order(self, terms: PyTree) -> int:
        return 2

    @override
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        half = self.kappa * jnp.asarray(step.t1 - step.t0) / 2
        warm = warmed(y0, self.edges, half, self.box)
        moved, told = self.inner.advance(terms, step, warm)
        return warmed(moved, self.edges, half, self.box), told


class Spreading(AbstractBox):
    r"""A box that also follows what noise adds to the spread.

    Seen from the moments that a box follows, noise is the velocity
    $\kappa\,\mathrm{Var}(\xi_k)^{-1}(\xi_k - \bar\xi_k)$ along each axis.

    Attributes:
        inner: how the box moves otherwise.
        rates: $\kappa/|D_k|^2$, the diffusivity along each axis of $\xi$.
    """

    inner: AbstractBox
    rates: Float[Array, " d"]

    @property
    @override
    def is_open(self) -> bool:
        return self.inner.is_open

    @override
    def let_through(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        return self.inner.let_through(faces, axis)

    @override
    def continued(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        return self.inner.continued(density, count)

    @override
    def motion(
        self,
        places: Float[Array, "n d"],
        velocities: Float[Array, "n d"],
        weights: Float[Array, " n"],
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        z = places - (weights @ places)[None, :]
        spread = (self.rates / (weights @ z**2))[None, :] * z
        return self.inner.motion(places, velocities + spread, weights)


def spread_with(mu: Grid, kappa: Float[Array, ""]) -> Grid:
    """The density in a box that follows the noise too, if it follows anything."""
    box = Spreading(mu.box, kappa / _lengths(mu.state.axes) ** 2)
    return Grid(mu.state, mu.edges, mu.position, box, mu.probe)


def resolving(mu: Grid, kappa: Float[Array, ""]) -> Float[Array, ""]:
    """The rate of steps in which noise widens the density as little as a box turns.

    The field is frozen while the heat flows: the shape that it sees must hardly change.
    """
    return kappa / eigh(mu.covariance)[0][0] / TURN


def warmed(
    y: GridState, edges: Edges, area: Float[Array, ""], box: AbstractBox
) -> GridState:
    r"""The heat flow of $\Delta$ for a time `area`, $\kappa t$, in a still box."""
    masses, outflow = y.masses, y.outflow
    for axis, own in enumerate(edges):
        stencil = _stencil(own, box)
        x = stencil.fastest * area / _lengths(y.axes)[axis] ** 2
        ends = [(0, 0)] * (masses.ndim - 1) + [(1, 1)]
        u = jnp.pad(jnp.moveaxis(masses, axis + 1, -1), ends)
        spread = _conserving(_exponential(stencil, u, x), u)
        outflow = outflow + jnp.sum(spread[..., 0]) + jnp.sum(spread[..., -1])
        masses = jnp.moveaxis(spread[..., 1:-1], -1, axis + 1)
    return y._replace(masses=masses, outflow=outflow)


class _Stencil(NamedTuple):
    r"""$N = I + T/q$ on one axis, between two cells that keep what they absorb.

    Attributes:
        stay: the share of each cell that stays.
        up: the share that goes to the next cell.
        down: the share that goes to the one before.
        fastest: $q$, for unit diffusivity.
    """

    stay: Float[Array, " n"]
    up: Float[Array, " n"]
    down: Float[Array, " n"]
    fastest: Float[Array, ""]

    def applied(self, u: Float[Array, "*cells"]) -> Float[Array, "*cells"]:
        """$Nu$, along the last axis."""
        lead = (None,) * (u.ndim - 1)
        none = jnp.zeros_like(u[..., :1])
        from_below = jnp.concatenate([none, (self.up[lead] * u)[..., :-1]], axis=-1)
        from_above = jnp.concatenate([(self.down[lead] * u)[..., 1:], none], axis=-1)
        return self.stay[lead] * u + from_below + from_above


def _stencil(edges: Float[Array, " faces"], box: AbstractBox) -> _Stencil:
    """Fluxes between cells go by the distance of their middles; outside is nothing."""
    h, middles = widths(edges), centres(edges)
    known = jnp.concatenate([edges[:1], middles, edges[-1:]])
    conducts = box.let_through(1 / jnp.diff(known), 0)
    up, down = conducts[1:] / h, conducts[:-1] / h
    fastest = jnp.max(up + down)
    up, down = jnp.pad(up / fastest, 1), jnp.pad(down / fastest, 1)
    return _Stencil(jnp.maximum(1 - up - down, 0), up, down, fastest)


def _exponential(
    stencil: _Stencil, u: Float[Array, "*cells"], x: Float[Array, ""]
) -> Float[Array, "*cells"]:
    r"""$e^{x(N - I)}u$, in as many sums as keep each within `CHUNK`."""
    count = jnp.maximum(jnp.ceil(x / CHUNK), 1)
    part = x / count
    # Where Poisson's weights have fallen below rounding, for any mean up to CHUNK.
    last = jnp.ceil(part + 10 * jnp.sqrt(part) + 20).astype(int)

    def add(k: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        total, term, weight = carry
        term, weight = stencil.applied(term), weight * part / k
        return total + weight * term, term, weight

    def once(_: Array, u: Array) -> Array:
        first = jnp.exp(-part)
        return jax.lax.fori_loop(1, last + 1, add, (first * u, u, first))[0]

    return jax.lax.fori_loop(0, count.astype(int), once, u)


def _conserving(new: Float[Array, "*cells"], old: Float[Array, "*cells"]) -> Array:
    """`new` with the mass of `old` in each layer: thousands of terms round, one way."""
    axes = tuple(range(1, new.ndim))
    before, after = (jnp.sum(u, axis=axes, keepdims=True) for u in (old, new))
    return new * jnp.where(after > 0, before / jnp.where(after > 0, after, 1), 1)


def _lengths(axes: Float[Array, "d d"]) -> Float[Array, " d"]:
    """The lengths of the axes of a box."""
    return jnp.sqrt(jnp.sum(axes**2, axis=0))
