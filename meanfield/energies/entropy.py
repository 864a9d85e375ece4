r"""The entropy $\int \rho\log\rho$."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.cells import centres, layer_masses, volumes
from meanfield.cells import entropy as summed
from meanfield.errors import UnsupportedError
from meanfield.fields import Convergence
from meanfield.linalg import solve_positive
from meanfield.measures import Gaussian, Grid, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, AbstractVariation, energy_of_measure


class Entropy(AbstractEnergy):
    r"""$E(\mu) = \int\rho\log\rho\,dx$, whose flow is the heat equation.

    On a Gaussian $-\tfrac12\log\det(2\pi e\Sigma)$, and $+\infty$ if $\Sigma$ is
    singular to within rounding, so of condition above $1/(d\,\mathrm{eps})$. The first
    variation is $\log\rho$, without the constant $1$. Points have no density.

    On a grid with layers of positions $s$ it is the mean entropy of the laws of the
    state given $s$, so it does not depend on how many layers there are.

    Source: castin2025, remark 5.1; uw2023, whose flow of it is $\rho' = \Delta\rho$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import Entropy
        >>> print(
        ...     Entropy()(Gaussian(jnp.zeros(1), jnp.eye(1))),
        ...     -np.log(2 * np.pi * np.e) / 2,
        ... )
        -1.41893... -1.41893...
    """

    @override
    def on_points(self, mu: Points) -> Float[Array, ""]:
        raise _without_density()

    @override
    def on_grid(self, mu: Grid) -> Float[Array, ""]:
        weights = mu.points().weights
        return summed(weights, log_density(mu).reshape(-1))

    @override
    def on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        d = mean.shape[0]
        eigenvalues = jnp.linalg.eigvalsh(jax.lax.stop_gradient(covariance))
        rounding = d * jnp.finfo(covariance.dtype).eps * eigenvalues[-1]
        log_det = d * (1 + jnp.log(2 * jnp.pi)) + jnp.linalg.slogdet(covariance)[1]
        return jnp.where(eigenvalues[0] > rounding, -log_det / 2, jnp.inf)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        raise _without_density()

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        return LogCellDensity(log_density(mu), mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return LogDensity(mu)


class LogDensity(AbstractVariation):
    r"""$\log\rho$ of a Gaussian; NaN if it has no density."""

    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        z, Sigma = (tokens.x - self.mu.mean[None, :]).T, self.mu.covariance
        log_det = jnp.linalg.slogdet(Sigma)[1] + len(z) * jnp.log(2 * jnp.pi)
        return -(jnp.sum(z * solve_positive(Sigma, z), axis=0) + log_det) / 2

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None


def log_density(mu: Grid) -> Float[Array, "..."]:
    r"""$\log\rho$ at the middles of cells, of each layer as a law of its own."""
    layers = mu.state.masses
    logs = mu.points().log_weights.reshape(layers.shape)
    sizes = jnp.abs(jnp.linalg.det(mu.state.axes)) * volumes(mu.edges)
    shares = layer_masses(layers, mu.dimension)
    return logs - jnp.log(sizes)[None] - jnp.log(shares / jnp.sum(shares))


class LogCellDensity(AbstractVariation):
    r"""$\log\rho$ of a density on a grid, by cubics through the four nearest cells.

    NaN outside of the grid, and where one of those cells is empty. Among layers of
    positions a token sees the one that is nearest to its own.

    Attributes:
        logs: $\log\rho$ at the middles of cells.
        mu: the density.
    """

    logs: Float[Array, "..."]
    mu: Grid

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        state, edges = self.mu.state, self.mu.edges
        xi = jnp.linalg.solve(state.axes, (tokens.x - state.origin[None, :]).T)
        cubics = [_cubic(e, place) for e, place in zip(edges, xi, strict=True)]
        known = jnp.where(jnp.isneginf(self.logs), jnp.nan, self.logs)
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

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None


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


def _without_density() -> UnsupportedError:
    return UnsupportedError(
        "Points have no density, so no entropy; a Gaussian has, and a grid "
        "(`measure = gaussian` or `grid`)."
    )


@energy_of_measure("entropy")
def entropy(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Entropy:
    """The integral of ρ log ρ, of Gaussians and grids; no parameter enters."""
    del Q, K, V, epsilon
    return Entropy()
