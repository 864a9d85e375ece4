r"""Internal energies $\int\rho^m/(m-1)$, for porous media and fast diffusion."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import AbstractExplicit
from meanfield.measures import Gaussian, Grid, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, energy_of_measure
from ._variation import (
    AbstractVariation,
    CellVariation,
    cell_density,
    log_density,
    pressure_forces,
)
from .entropy import Entropy, LogDensity


class InternalEnergy(AbstractEnergy):
    r"""$E(\mu) = \frac1{m-1}\int\rho^m\,dx$, whose flow is $\rho' = \Delta\rho^m$.

    The flow is the porous medium equation for $m > 1$ and fast diffusion for $m < 1$;
    for $m = 1$ use `Entropy`. The first variation is $\frac m{m-1}\rho^{m-1}$, and the
    pressure $\rho U' - U$ is $\rho^m$. Points have no internal energy, since they have
    no density. On a Gaussian the energy is
    $\frac1{m-1}\det(2\pi\Sigma)^{(1-m)/2}m^{-d/2}$. On a grid with layers of positions
    $s$, it is the mean energy of the state given $s$.

    Args:
        exponent: $m$, positive and not one. It should be above $d/(d+2)$, so that
            second moments of the flow are finite; this is not checked here, since the
            dimension is unknown.

    Raises:
        InvalidInputError: if `exponent` is not a positive number other than one.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import InternalEnergy
        >>> mu = Gaussian(jnp.zeros(1), jnp.eye(1))
        >>> print(InternalEnergy(2.0)(mu), 1 / (2 * np.sqrt(np.pi)))  # ∫ρ²
        0.28209... 0.28209...
    """

    exponent: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        m = self.exponent
        if not (np.isfinite(m) and m > 0 and m != 1):
            raise InvalidInputError(
                f"The exponent m of ρ^m/(m − 1) must be positive and not 1; got {m}. "
                "For m = 1 use `Entropy`."
            )

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        raise _missing_density_error()

    @override
    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        m, weights = self.exponent, mu.points().weights
        powers = jnp.exp((m - 1) * log_density(mu)).reshape(-1)
        return jnp.sum(jnp.where(weights > 0, weights * powers, 0)) / (m - 1)

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        m, d = self.exponent, mean.shape[0]
        log_det = d * jnp.log(2 * jnp.pi) + jnp.linalg.slogdet(covariance)[1]
        return jnp.exp((1 - m) / 2 * log_det - d / 2 * jnp.log(m)) / (m - 1)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        raise _missing_density_error()

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        m = self.exponent
        powers = jnp.exp((m - 1) * log_density(mu))  # p/ρ = ρ^(m-1), infinite at ρ = 0
        ratio = cell_density(mu) ** (m - 1)
        forces = pressure_forces(mu, ratio, m)
        return CellVariation(m / (m - 1) * powers, mu, forces, powers)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return PowerOfDensity(LogDensity(mu), self.exponent)


class PowerOfDensity(AbstractExplicit, AbstractVariation):
    r"""The function $\frac m{m-1}\rho^{m-1}$ of a Gaussian; NaN if it is singular."""

    logs: LogDensity
    exponent: float = eqx.field(static=True)

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, " n"]:
        m = self.exponent
        return m / (m - 1) * jnp.exp((m - 1) * self.logs(tokens))


def _missing_density_error() -> UnsupportedError:
    return UnsupportedError(
        "Points have no density and so no internal energy. Use a grid, or the flow "
        "restricted to Gaussians (`measure = grid` or `gaussian`)."
    )


@energy_of_measure("internal")
def internal(
    Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0, m: Scalar = 2.0
) -> AbstractEnergy:
    """The integral of ρ^m/(m − 1), for Gaussians and grids; option `m`, 2 by default.

    For m = 1 the energy is the entropy.
    """
    del Q, K, epsilon
    d = np.shape(V)[-1]
    number = m if isinstance(m, int | float) else np.nan
    if not number > d / (d + 2):
        raise InvalidInputError(
            f"`m` must be a number above d/(d + 2) = {d / (d + 2):.4g}, so that second "
            f"moments are finite; got {m}."
        )
    return Entropy() if number == 1 else InternalEnergy(float(number))
