r"""First variations of energies: at tokens, and at the cells of a grid.

Where a density has jumps or ends, $\nabla\delta E$ is no velocity that a flow could ask
for at places: the flow is driven between cells instead (`CellForces`).
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._forces import CellForces
from meanfield._typing import Scalar
from meanfield.cells import along, centres, layer_masses, neighbours, volumes, widths
from meanfield.fields import AbstractExplicit, Convergence, worst_of
from meanfield.measures import Grid
from meanfield.tokens import Tokens


class AbstractVariation(eqx.Module):
    r"""$\delta E(\mu)$, frozen at one $\mu$: a function of a token; call it on any.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import QuadraticPotential
        >>> mu = Points.uniform([[1.0], [3.0]])
        >>> slope = QuadraticPotential(jnp.eye(1)).variation(mu)
        >>> print(slope(mu.tokens), slope.gradient(mu.tokens).ravel())
        [0.5 4.5] [1. 3.]
    """

    @abc.abstractmethod
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        """The values at `tokens`."""

    @property
    @abc.abstractmethod
    def convergence(self) -> Convergence | None:
        """Error of the iteration behind it; `None` if there was none."""

    def gradient(self, tokens: Tokens) -> Float[Array, "n d"]:
        r"""$\nabla \delta E(\mu)$ at `tokens`."""
        total = lambda x: jnp.sum(self(Tokens(x, tokens.position)))
        return jax.grad(total)(tokens.x)  # a value depends on its own token alone


class CombinedVariation(AbstractVariation):
    """The same combination of variations."""

    factors: tuple[Scalar, ...]
    terms: tuple[AbstractVariation, ...]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        return combined(self.factors, [term(tokens) for term in self.terms])

    @property
    @override
    def convergence(self) -> Convergence | None:
        known = [c for c in (term.convergence for term in self.terms) if c is not None]
        return worst_of(known) if known else None


class QuadraticVariation(AbstractExplicit, AbstractVariation):
    r"""$x \mapsto \tfrac12 (x-c)\cdot H(x-c) + \ell\cdot x$.

    Attributes:
        matrix: $H$, symmetric.
        centre: $c$.
        linear: $\ell$.
    """

    matrix: Float[Array, "d d"]
    centre: Float[Array, " d"]
    linear: Float[Array, " d"]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        z = tokens.x - self.centre[None, :]
        return jnp.sum((z @ self.matrix) * z, axis=1) / 2 + tokens.x @ self.linear


def combined(factors: tuple[Scalar, ...], values: list[Array]) -> Array:
    first, *others = [c * value for c, value in zip(factors, values, strict=True)]
    return sum(others, first)


Cells = Float[Array, "layers ..."]


class CellVariation(AbstractExplicit, AbstractVariation):
    r"""$\delta E$ of a density on a grid, by cubics through the four nearest cells.

    NaN outside of the grid, and where it is not finite at one of those cells. Among
    layers of positions a token sees the one that is nearest to its own.

    Attributes:
        values: at the middles of cells, by layer and axis.
        mu: the density.
        forces: what drives its descent between cells.
        pressure: $p(\rho)/\rho$ at the middles of cells, of an energy $\int U(\rho)$
            with $p = \rho U' - U$; `None` for another energy.
    """

    values: Cells
    mu: Grid
    forces: CellForces
    pressure: Cells | None = None

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        state, edges = self.mu.state, self.mu.edges
        xi = jnp.linalg.solve(state.axes, (tokens.x - state.origin[None, :]).T)
        cubics = [_cubic(e, place) for e, place in zip(edges, xi, strict=True)]
        known = jnp.where(jnp.isfinite(self.values), self.values, jnp.nan)
        some = known[(self._layer(tokens), *_stencils([c.cells for c in cubics]))]
        for axis in reversed(range(len(edges))):
            weights = cubics[axis].weights
            along = weights.reshape(len(weights), *(1,) * axis, -1)
            some = jnp.sum(some * along, axis=-1)
        return some

    def _layer(self, tokens: Tokens) -> Array:
        """The layer of each token, against the stencils of its cells."""
        last = (1,) * len(self.mu.edges)
        if self.mu.position is None or tokens.position is None:
            return jnp.zeros((tokens.n, *last), int)
        gaps = jnp.abs(tokens.position[:, None] - self.mu.position[None, :])
        return jnp.argmin(gaps, axis=1).reshape(-1, *last)


def parts_of(
    variation: AbstractVariation, factor: Scalar = 1.0
) -> list[tuple[Scalar, AbstractVariation]]:
    """The variations that one is a sum of, with their factors."""
    if not isinstance(variation, CombinedVariation):
        return [(factor, variation)]
    pairs = zip(variation.factors, variation.terms, strict=True)
    return [part for c, term in pairs for part in parts_of(term, factor * c)]


def slope_between(variation: AbstractVariation, mu: Grid) -> Float[Array, ""]:
    r"""$\int|\nabla\delta E|^2\,d\mu$ over the faces of cells that hold mass.

    Infinite where a density that counts ends at once and $\delta E$ is infinite beyond;
    of the order of one over the width of a cell where it is finite.
    """
    values = jnp.zeros_like(mu.state.masses)
    for factor, part in parts_of(variation):
        if isinstance(part, CellVariation):
            values = values + factor * part.values
        else:
            values = values + factor * part(mu.points().tokens).reshape(values.shape)
    total = jnp.zeros((), values.dtype)
    for axis, edges in enumerate(mu.edges, start=1):
        n, scale = values.ndim, jnp.sum(mu.state.axes[:, axis - 1] ** 2)
        line = mu.state.masses / along(widths(edges), axis, n)
        low, high = neighbours(line, axis)
        steps = jnp.diff(values, axis=axis)
        # A tail ends where its numbers underflow: that is no end of the density.
        counts = jnp.maximum(low, high) > jnp.finfo(line.dtype).eps * jnp.max(line)
        there = ((low > 0) & (high > 0)) | (counts & ~jnp.isnan(steps))
        gaps = along(jnp.diff(centres(edges)), axis, n)
        squares = (low + high) / 2 * jnp.where(there, steps, 0) ** 2 / gaps
        total = total + jnp.sum(jnp.where(there, squares, 0)) / scale
    return total


def diffusing(mu: Grid, ratio: Cells, steepness: float) -> CellForces:
    r"""The forces of a pressure.

    Args:
        mu: the density.
        ratio: $p(\rho)/\rho$ of the average over each cell.
        steepness: $\rho p'/p$, the same for all.
    """
    masses = mu.state.masses
    there = jnp.where(masses > 0, ratio, 0)
    return CellForces(
        there * masses, max(1.0, steepness) * there, jnp.zeros_like(masses)
    )


def cell_density(mu: Grid) -> Cells:
    r"""$\rho$ averaged over cells, of each layer as a law of its own."""
    layers = mu.state.masses
    sizes = jnp.abs(jnp.linalg.det(mu.state.axes)) * volumes(mu.edges)
    shares = layer_masses(layers, mu.dimension)
    return layers / sizes[None] / (shares / jnp.sum(shares))


def log_density(mu: Grid) -> Cells:
    r"""$\log\rho$ at the middles of cells, of each layer as a law of its own."""
    layers = mu.state.masses
    logs = mu.points().log_weights.reshape(layers.shape)
    sizes = jnp.abs(jnp.linalg.det(mu.state.axes)) * volumes(mu.edges)
    shares = layer_masses(layers, mu.dimension)
    return logs - jnp.log(sizes)[None] - jnp.log(shares / jnp.sum(shares))


class _Cubic(eqx.Module):
    """Four cells for each place along an axis, and Lagrange's weights there."""

    cells: Int[Array, "n 4"]
    weights: Float[Array, "n 4"]


def _cubic(edges: Float[Array, " faces"], places: Float[Array, " n"]) -> _Cubic:
    middles = centres(edges)
    first = jnp.clip(jnp.searchsorted(middles, places) - 2, 0, len(middles) - 4)
    cells = first[:, None] + jnp.arange(4)[None, :]
    nodes = middles[cells]
    inside = (places >= edges[0]) & (places <= edges[-1])
    known = places + jnp.where(inside, 0, jnp.nan)  # so that slopes are NaN as well
    gaps = known[:, None] - nodes
    rows = []
    for k in range(4):
        others = jnp.array([j for j in range(4) if j != k])
        rows.append(
            jnp.prod(gaps[:, others] / (nodes[:, k : k + 1] - nodes[:, others]), axis=1)
        )
    return _Cubic(cells, jnp.stack(rows, axis=1))


def _stencils(cells: list[Int[Array, "n 4"]]) -> tuple[Array, ...]:
    """The cells along each axis, against those along the others."""
    d = len(cells)
    return tuple(
        own.reshape(len(own), *(4 if k == axis else 1 for k in range(d)))
        for axis, own in enumerate(cells)
    )
