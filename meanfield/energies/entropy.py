r"""The entropy $\int \rho\log\rho$."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.errors import UnsupportedError
from meanfield.fields import Convergence
from meanfield.linalg import solve_positive
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, AbstractVariation, as_gaussian, energies


class Entropy(AbstractEnergy):
    r"""$E(\mu) = \int\rho\log\rho\,dx$, whose flow is the heat equation.

    On a Gaussian $-\tfrac12\log\det(2\pi e\Sigma)$, and $+\infty$ if $\Sigma$ is
    singular to within rounding, so of condition above $1/(d\,\mathrm{eps})$. The first
    variation is $\log\rho$, without the constant $1$. Points have no density.

    Source: castin2025, remark 5.1; uw2023, whose flow of it is $\rho' = \Delta\rho$.
    """

    @override
    def on_points(self, mu: Points) -> Float[Array, ""]:
        raise _without_density()

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
    def variation(self, mu: AbstractMeasure) -> AbstractVariation:
        if isinstance(mu, Points):
            raise _without_density()
        return LogDensity(as_gaussian(mu))


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


def _without_density() -> UnsupportedError:
    return UnsupportedError(
        "Points have no density, so no entropy; a Gaussian has (`measure = gaussian`)."
    )


@energies.register("entropy")
def entropy(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Entropy:
    """The integral of ρ log ρ, of Gaussians; no parameter enters."""
    del Q, K, V, epsilon
    return Entropy()
