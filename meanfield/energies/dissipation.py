r"""Rates of change of energies when a velocity field moves the measure."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, AbstractEnergyReader
from ._variation import AbstractVariation, CellVariation, CombinedVariation


def dissipation(
    energy: AbstractEnergy, mu: AbstractMeasure, field: AbstractField
) -> Float[Array, ""]:
    r"""$dE/dt = \int\nabla\delta E\cdot v\,d\mu$ when `field` moves the measure.

    The rate is negative when the energy decreases, and refers to the time of the field.
    On a Gaussian it is computed by the chain rule from the rates of the moments. On a
    grid it is the rate on `points()`, without the mass that leaves the box; if the
    field moves mass between cells, it is computed by the chain rule from the rates of
    the masses. On a measure that is represented by nodes it is computed by the chain
    rule from the rates of the coordinates, which need not follow the field exactly.

    Raises:
        UnsupportedError: for a Gaussian and a field that is not affine.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import GradientFlow, QuadraticPotential, dissipation
        >>> energy, mu = (
        ...     QuadraticPotential(jnp.eye(1)),
        ...     Gaussian(jnp.ones(1), jnp.eye(1)),
        ... )
        >>> print(
        ...     dissipation(energy, mu, GradientFlow(energy).field(0.0, mu))
        ... )  # -∫|x|²dμ
        -2.0
    """
    return _Dissipation(energy, field)(mu)


@dataclass(frozen=True)
class _Dissipation(AbstractEnergyReader[Float[Array, ""]]):
    """Reader that returns the rate of change of an energy when a field moves `mu`."""

    energy: AbstractEnergy
    field: AbstractField

    @override
    def read_points(self, mu: Points) -> Float[Array, ""]:
        return _power(self.energy.variation(mu), mu, self.field)

    @override
    def read_grid(self, mu: Grid) -> Float[Array, ""]:
        if self.field.parts[1] is not None:
            return self.read_nodes(mu, mu.points())
        return _power(self.energy.variation(mu), mu.points(), self.field)

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> Float[Array, ""]:
        energy = lambda coordinates: self.energy(mu.replace_coordinates(coordinates))
        rates = mu.transport(self.field)
        return jax.jvp(energy, (mu.coordinates,), (rates,))[1]

    @override
    def read_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        mean_rate, factor_rate = mu.transport(self.field)
        mean_gradient, covariance_gradient = self.energy.moment_gradients(mu)
        half = factor_rate @ mu.factor.T
        return mean_gradient @ mean_rate + 2 * jnp.sum(covariance_gradient * half)


def _power(
    variation: AbstractVariation, mu: Points, field: AbstractField
) -> Float[Array, ""]:
    r"""$\int\nabla\delta E\cdot v\,d\mu$; for a density $-\int p\nabla\cdot v\,dx$."""
    if isinstance(variation, CombinedVariation):
        powers = [_power(term, mu, field) for term in variation.terms]
        return jnp.asarray(variation.factors) @ jnp.stack(powers)
    if isinstance(variation, CellVariation) and variation.pressure is not None:
        # Integration by parts avoids the gradient, since a density can have jumps.
        power = -variation.pressure.reshape(-1) * divergence(field, mu.tokens)
    else:
        velocity = mu.transport(field)
        power = jnp.sum(variation.gradient(mu.tokens) * velocity, axis=1)
    return mu.total(power)


def divergence(field: AbstractField, tokens: Tokens) -> Float[Array, " n"]:
    r"""The divergence $\nabla\cdot v$ of a field at `tokens`."""
    velocity = lambda x: field(Tokens(x, tokens.position))
    total = jnp.zeros(tokens.n, tokens.x.dtype)
    for k in range(tokens.x.shape[1]):  # each velocity depends on its own token only
        direction = jnp.zeros_like(tokens.x).at[:, k].set(1)
        total = total + jax.jvp(velocity, (tokens.x,), (direction,))[1][:, k]
    return total
