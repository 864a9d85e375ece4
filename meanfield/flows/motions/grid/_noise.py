r"""Noise on a grid: half a step of the heat flow before and after each step.

This is Strang splitting, of second order. The heat flow is $e^{\tau T}$, where the
three-point matrix $T$ has the fluxes between cells and at the walls; it is exact in
time for steps of any length. It is summed by uniformisation,
$e^{-x}\sum_k \frac{x^k}{k!} N^k$ with $N = I + T/q \ge 0$ and $x = q\tau$, where $q$ is
the largest rate at which mass leaves a cell. Every term is non-negative, so masses stay
non-negative and tails keep their relative precision. With the eigenvectors of $T$,
rounding of the largest mass would swamp the tails, and attention to far tokens would
amplify this error.

Source: Strang 1968, section 3; for uniformisation Jensen 1953 (Moler and Van Loan 2003
compare methods for matrix exponentials).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield.cells import centres, widths
from meanfield.flows.stepping import AbstractGridSolver, Step
from meanfield.linalg import eigh
from meanfield.measures import MAX_TURN, AbstractBox, Grid, GridState

CHUNK = 64.0  # largest x of one sum, whose first weight e^-x must not underflow
Edges = tuple[Float[Array, "..."], ...]


class Strang(AbstractGridSolver):
    """Strang splitting: a step of transport between two half steps of heat flow.

    Attributes:
        inner: the solver of the transport, which moves the masses and the box.
        kappa: the diffusivity.
        edges: the edges of the cells along each axis.
        box: the box, whose walls absorb mass or reflect it.
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
        warm = apply_heat_flow(y0, self.edges, half, self.box)
        state, rate = self.inner.advance(terms, step, warm)
        return apply_heat_flow(state, self.edges, half, self.box), rate


class SpreadingBox(AbstractBox):
    r"""A box that also follows the density as noise spreads it.

    For the moments that a box follows, noise acts like the velocity
    $\kappa\,\mathrm{Var}(\xi_k)^{-1}(\xi_k - \bar\xi_k)$ along each axis.

    Attributes:
        inner: the box without noise.
        rates: $\kappa/|D_k|^2$, the diffusivity along each axis of $\xi$.
    """

    inner: AbstractBox
    rates: Float[Array, " d"]

    @property
    @override
    def is_open(self) -> bool:
        return self.inner.is_open

    @override
    def apply_walls(
        self, faces: Float[Array, "*faces"], axis: int
    ) -> Float[Array, "*faces"]:
        return self.inner.apply_walls(faces, axis)

    @override
    def extend_density(
        self, density: Float[Array, "*cells"], count: int
    ) -> Float[Array, "*wider"]:
        return self.inner.extend_density(density, count)

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


def add_box_spreading(mu: Grid, kappa: Float[Array, ""]) -> Grid:
    """Lets a box that moves with a density also follow the spreading due to noise."""
    box = SpreadingBox(mu.box, kappa / _lengths(mu.state.axes) ** 2)
    return Grid(mu.state, mu.edges, mu.position, box, mu.probe)


def noise_step_rate(mu: Grid, kappa: Float[Array, ""]) -> Float[Array, ""]:
    """The inverse of the longest step in which noise hardly widens the density.

    The field is frozen during the heat flow, so the density may widen by at most a
    fraction `MAX_TURN` in a step.
    """
    return kappa / eigh(mu.covariance)[0][0] / MAX_TURN


def apply_heat_flow(
    y: GridState, edges: Edges, area: Float[Array, ""], box: AbstractBox
) -> GridState:
    r"""The heat flow of $\Delta$ in a fixed box, up to the time `area` $= \kappa t$."""
    masses, outflow = y.masses, y.outflow
    for axis, axis_edges in enumerate(edges):
        stencil = _stencil(axis_edges, box)
        x = stencil.fastest * area / _lengths(y.axes)[axis] ** 2
        ends = [(0, 0)] * (masses.ndim - 1) + [(1, 1)]
        u = jnp.pad(jnp.moveaxis(masses, axis + 1, -1), ends)
        spread = _conserve_mass(_exponential(stencil, u, x), u)
        outflow = outflow + jnp.sum(spread[..., 0]) + jnp.sum(spread[..., -1])
        masses = jnp.moveaxis(spread[..., 1:-1], -1, axis + 1)
    return y._replace(masses=masses, outflow=outflow)


class _Stencil(NamedTuple):
    r"""The matrix $N = I + T/q$ along one axis, with an absorbing cell at each end.

    Attributes:
        stay: the fraction of each cell's mass that stays.
        up: the fraction that moves to the next cell.
        down: the fraction that moves to the previous cell.
        fastest: $q$, for unit diffusivity.
    """

    stay: Float[Array, " n"]
    up: Float[Array, " n"]
    down: Float[Array, " n"]
    fastest: Float[Array, ""]

    def apply(self, u: Float[Array, "*cells"]) -> Float[Array, "*cells"]:
        """The product $Nu$ along the last axis."""
        lead = (None,) * (u.ndim - 1)
        zeros = jnp.zeros_like(u[..., :1])
        from_below = jnp.concatenate([zeros, (self.up[lead] * u)[..., :-1]], axis=-1)
        from_above = jnp.concatenate([(self.down[lead] * u)[..., 1:], zeros], axis=-1)
        return self.stay[lead] * u + from_below + from_above


def _stencil(edges: Float[Array, " faces"], box: AbstractBox) -> _Stencil:
    """The stencil of heat fluxes between neighbouring cells, with the box's walls."""
    h, middles = widths(edges), centres(edges)
    nodes = jnp.concatenate([edges[:1], middles, edges[-1:]])
    conducts = box.apply_walls(1 / jnp.diff(nodes), 0)
    up, down = conducts[1:] / h, conducts[:-1] / h
    fastest = jnp.max(up + down)
    up, down = jnp.pad(up / fastest, 1), jnp.pad(down / fastest, 1)
    return _Stencil(jnp.maximum(1 - up - down, 0), up, down, fastest)


def _exponential(
    stencil: _Stencil, u: Float[Array, "*cells"], x: Float[Array, ""]
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


def _lengths(axes: Float[Array, "d d"]) -> Float[Array, " d"]:
    """The lengths of the axes of a box."""
    return jnp.sqrt(jnp.sum(axes**2, axis=0))
