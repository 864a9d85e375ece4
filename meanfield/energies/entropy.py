r"""The entropy $\int \rho\log\rho$."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._lapack import eigvalsh
from meanfield._typing import Numbers, Scalar
from meanfield.cells import entropy as summed
from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractExplicit
from meanfield.linalg import solve_positive
from meanfield.measures import Gaussian, Grid, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_measure
from ._variation import AbstractVariation, CellVariation, log_density, pressure_forces


class Entropy(AbstractEnergy):
    r"""The entropy $E(\mu) = \int\rho\log\rho\,dx$, whose flow is the heat equation.

    On a Gaussian it is $-\tfrac12\log\det(2\pi e\Sigma)$. It is $+\infty$ if $\Sigma$
    is singular up to rounding, that is, if its condition number is above
    $1/(d\,\mathrm{eps})$. The first variation is $\log\rho$, without the constant $1$.
    Points have no entropy, since they have no density.

    On a grid with layers of positions $s$, the result is the mean entropy of the state
    given $s$. It does not depend on the number of layers.

    Source: castin2025, remark 5.1; uw2023, where its flow is $\rho' = \Delta\rho$.

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
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        raise _missing_density_error()

    @override
    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        weights = mu.points().weights
        return summed(weights, log_density(mu).reshape(-1))

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        d = mean.shape[0]
        eigenvalues = eigvalsh(jax.lax.stop_gradient(covariance))
        rounding = d * jnp.finfo(covariance.dtype).eps * eigenvalues[-1]
        log_det = d * (1 + jnp.log(2 * jnp.pi)) + jnp.linalg.slogdet(covariance)[1]
        return jnp.where(eigenvalues[0] > rounding, -log_det / 2, jnp.inf)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        raise _missing_density_error()

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        even = jnp.ones_like(mu.state.masses)  # p/ρ is 1, since the pressure is p = ρ
        return CellVariation(log_density(mu), mu, pressure_forces(mu, even, 1.0), even)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return LogDensity(mu)


class LogDensity(AbstractExplicit, AbstractVariation):
    r"""The function $\log\rho$ of a Gaussian; NaN if the Gaussian has no density."""

    mu: Gaussian

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        z, Sigma = (tokens.x - self.mu.mean[None, :]).T, self.mu.covariance
        log_det = jnp.linalg.slogdet(Sigma)[1] + len(z) * jnp.log(2 * jnp.pi)
        return -(jnp.sum(z * solve_positive(Sigma, z), axis=0) + log_det) / 2


def _missing_density_error() -> UnsupportedError:
    return UnsupportedError(
        "Points have no density and so no entropy. Use a Gaussian or a grid "
        "(`measure = gaussian` or `grid`)."
    )


@energy_of_measure("entropy")
def entropy(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Entropy:
    """The integral of ρ log ρ, for Gaussians and grids; it has no parameters."""
    del Q, K, V, epsilon
    return Entropy()
