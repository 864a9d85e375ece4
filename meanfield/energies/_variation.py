r"""First variations of energies, at tokens and at the cells of a grid.

At a jump of a density, or at the edge of its support, $\nabla\delta E$ is not a
velocity that can be evaluated at points. On a grid, forces between cells (`CellForces`)
drive the flow instead.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._forces import CellForces
from meanfield._typing import Scalar
from meanfield.cells import (
    align_axis,
    centres,
    layer_masses,
    neighbours,
    volumes,
    widths,
)
from meanfield.fields import AbstractExplicit, Convergence, worst_of
from meanfield.measures import Grid
from meanfield.tokens import Tokens


class AbstractVariation(eqx.Module):
    r"""The first variation $\delta E(\mu)$ at a fixed $\mu$, as a function of tokens.

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
        """The values of the first variation at `tokens`."""

    @property
    @abc.abstractmethod
    def convergence(self) -> Convergence | None:
        """Convergence of the iteration behind the first variation, or `None`."""

    def gradient(self, tokens: Tokens) -> Float[Array, "n d"]:
        r"""The gradient $\nabla \delta E(\mu)$ at `tokens`."""
        total = lambda x: jnp.sum(self(Tokens(x, tokens.position)))
        return jax.grad(total)(tokens.x)  # no value depends on another token


class CombinedVariation(AbstractVariation):
    """A linear combination of first variations."""

    factors: tuple[Scalar, ...]
    terms: tuple[AbstractVariation, ...]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        return combine(self.factors, [term(tokens) for term in self.terms])

    @property
    @override
    def convergence(self) -> Convergence | None:
        convergences = [
            c for c in (term.convergence for term in self.terms) if c is not None
        ]
        return worst_of(convergences) if convergences else None


class QuadraticVariation(AbstractExplicit, AbstractVariation):
    r"""The quadratic function $x \mapsto \tfrac12 (x-c)\cdot H(x-c) + \ell\cdot x$.

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


def combine(factors: tuple[Scalar, ...], values: list[Array]) -> Array:
    first, *rest = [c * value for c, value in zip(factors, values, strict=True)]
    return sum(rest, first)


Cells = Float[Array, "layers ..."]


class CellVariation(AbstractExplicit, AbstractVariation):
    r"""$\delta E$ of a density on a grid, by cubic interpolation along each axis.

    The interpolation uses the four nearest cells. The result is NaN outside the
    grid, and where $\delta E$ is not finite at one of these cells. With layers of
    positions, a token uses the layer nearest to its position.

    Attributes:
        values: values at the centres of cells; the first axis runs over layers.
        mu: the density.
        forces: the forces between cells that drive the descent of the energy.
        pressure: $p(\rho)/\rho$ at the centres of cells, for an energy $\int U(\rho)$
            with $p = \rho U' - U$; `None` for other energies.
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
        finite_values = jnp.where(jnp.isfinite(self.values), self.values, jnp.nan)
        values = finite_values[
            (self._layer(tokens), *_stencils([c.cells for c in cubics]))
        ]
        for axis in reversed(range(len(edges))):
            weights = cubics[axis].weights
            axis_weights = weights.reshape(len(weights), *(1,) * axis, -1)
            values = jnp.sum(values * axis_weights, axis=-1)
        return values

    def _layer(self, tokens: Tokens) -> Array:
        """Index of the layer of each token, shaped to broadcast with the stencils."""
        last = (1,) * len(self.mu.edges)
        if self.mu.position is None or tokens.position is None:
            return jnp.zeros((tokens.n, *last), int)
        gaps = jnp.abs(tokens.position[:, None] - self.mu.position[None, :])
        return jnp.argmin(gaps, axis=1).reshape(-1, *last)


def parts_of(
    variation: AbstractVariation, factor: Scalar = 1.0
) -> list[tuple[Scalar, AbstractVariation]]:
    """The terms of a combined variation, each with its total factor."""
    if not isinstance(variation, CombinedVariation):
        return [(factor, variation)]
    pairs = zip(variation.factors, variation.terms, strict=True)
    return [part for c, term in pairs for part in parts_of(term, factor * c)]


def face_gradient_square(variation: AbstractVariation, mu: Grid) -> Float[Array, ""]:
    r"""$\int|\nabla\delta E|^2\,d\mu$ as a sum over the faces of cells with mass.

    If the density drops to zero at an edge, the result depends on $\delta E$ beyond the
    edge: it is infinite if $\delta E$ is infinite there, and of the order of one over
    the cell width if $\delta E$ is finite there.
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
        line = mu.state.masses / align_axis(widths(edges), axis, n)
        low, high = neighbours(line, axis)
        steps = jnp.diff(values, axis=axis)
        # A tail that underflows to zero does not count as an edge of the density.
        counts = jnp.maximum(low, high) > jnp.finfo(line.dtype).eps * jnp.max(line)
        is_inner = ((low > 0) & (high > 0)) | (counts & ~jnp.isnan(steps))
        gaps = align_axis(jnp.diff(centres(edges)), axis, n)
        squares = (low + high) / 2 * jnp.where(is_inner, steps, 0) ** 2 / gaps
        total = total + jnp.sum(jnp.where(is_inner, squares, 0)) / scale
    return total


def pressure_forces(mu: Grid, ratio: Cells, steepness: float) -> CellForces:
    r"""The forces between cells that a pressure $p(\rho)$ exerts.

    Args:
        mu: the density.
        ratio: $p(\rho)/\rho$ for the average density of each cell.
        steepness: $\rho p'/p$, which must be constant.
    """
    masses = mu.state.masses
    safe_ratio = jnp.where(masses > 0, ratio, 0)
    return CellForces(
        safe_ratio * masses, max(1.0, steepness) * safe_ratio, jnp.zeros_like(masses)
    )


def cell_density(mu: Grid) -> Cells:
    r"""Averages of $\rho$ over cells; each layer is normalised as a separate law."""
    layers = mu.state.masses
    sizes = jnp.abs(jnp.linalg.det(mu.state.axes)) * volumes(mu.edges)
    shares = layer_masses(layers, mu.dimension)
    return layers / sizes[None] / (shares / jnp.sum(shares))


def log_density(mu: Grid) -> Cells:
    r"""Values of $\log\rho$ at cell centres; each layer is normalised separately."""
    layers = mu.state.masses
    logs = mu.points().log_weights.reshape(layers.shape)
    sizes = jnp.abs(jnp.linalg.det(mu.state.axes)) * volumes(mu.edges)
    shares = layer_masses(layers, mu.dimension)
    return logs - jnp.log(sizes)[None] - jnp.log(shares / jnp.sum(shares))


class _Cubic(eqx.Module):
    """Four cells near each point along an axis, with Lagrange interpolation weights."""

    cells: Int[Array, "n 4"]
    weights: Float[Array, "n 4"]


def _cubic(edges: Float[Array, " faces"], places: Float[Array, " n"]) -> _Cubic:
    middles = centres(edges)
    first = jnp.clip(jnp.searchsorted(middles, places) - 2, 0, len(middles) - 4)
    cells = first[:, None] + jnp.arange(4)[None, :]
    nodes = middles[cells]
    is_inside = (places >= edges[0]) & (places <= edges[-1])
    # Adding NaN makes the gradients outside the grid NaN, too.
    safe_places = places + jnp.where(is_inside, 0, jnp.nan)
    gaps = safe_places[:, None] - nodes
    rows = []
    for k in range(4):
        indices = jnp.array([j for j in range(4) if j != k])
        rows.append(
            jnp.prod(
                gaps[:, indices] / (nodes[:, k : k + 1] - nodes[:, indices]), axis=1
            )
        )
    return _Cubic(cells, jnp.stack(rows, axis=1))


def _stencils(cells: list[Int[Array, "n 4"]]) -> tuple[Array, ...]:
    """Cell indices along each axis, in shapes that broadcast with each other."""
    d = len(cells)
    return tuple(
        indices.reshape(len(indices), *(4 if k == axis else 1 for k in range(d)))
        for axis, indices in enumerate(cells)
    )
