r"""How an energy changes where a field moves the measure."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.tokens import Tokens

from ._energy import (
    AbstractEnergy,
    AbstractEnergyReader,
)
from ._variation import AbstractVariation, CellVariation, CombinedVariation


def dissipation(
    energy: AbstractEnergy, mu: AbstractMeasure, field: AbstractField
) -> Float[Array, ""]:
    r"""$\int\nabla\delta E\cdot v\,d\mu$: $dE/dt$ where `field` moves the measure.

    Negative where energy is lost, and in the clock of the field. On a Gaussian by
    the chain rule through its moments; on a grid as on its `points()`, mass that leaves
    through the ends of the box not counted, and by the chain rule through the masses of
    its cells where the field moves mass between these; on a measure that is read by its
    nodes by the chain rule through its coordinates, which need not follow the field
    itself.

    Raises:
        UnsupportedError: if a Gaussian meets a field that is not affine.

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
    """The rate of an energy where a field moves the measure."""

    energy: AbstractEnergy
    field: AbstractField

    @override
    def of_points(self, mu: Points) -> Float[Array, ""]:
        return _power(self.energy.variation(mu), mu, self.field)

    @override
    def of_grid(self, mu: Grid) -> Float[Array, ""]:
        if self.field.parted[1] is not None:
            return self.of_nodes(mu, mu.points())
        return _power(self.energy.variation(mu), mu.points(), self.field)

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> Float[Array, ""]:
        energy = lambda coordinates: self.energy(mu.at(coordinates))
        rates = mu.transport(self.field)
        return jax.jvp(energy, (mu.coordinates,), (rates,))[1]

    @override
    def of_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        mean_rate, factor_rate = mu.transport(self.field)
        by_mean, by_covariance = self.energy.slopes(mu)
        half = factor_rate @ mu.factor.T
        return by_mean @ mean_rate + 2 * jnp.sum(by_covariance * half)


def _power(
    variation: AbstractVariation, mu: Points, field: AbstractField
) -> Float[Array, ""]:
    r"""$\int\nabla\delta E\cdot v\,d\mu$; of a density $-\int p\,\nabla\cdot v\,dx$."""
    if isinstance(variation, CombinedVariation):
        powers = [_power(term, mu, field) for term in variation.terms]
        return jnp.asarray(variation.factors) @ jnp.stack(powers)
    if isinstance(variation, CellVariation) and variation.pressure is not None:
        # By parts, for a density may have jumps.
        power = -variation.pressure.reshape(-1) * divergence(field, mu.tokens)
    else:
        power = jnp.sum(variation.gradient(mu.tokens) * field(mu.tokens), axis=1)
    return mu.total(power)


def divergence(field: AbstractField, tokens: Tokens) -> Float[Array, " n"]:
    r"""$\nabla\cdot v$ at `tokens`."""
    at = lambda x: field(Tokens(x, tokens.position))
    total = jnp.zeros(tokens.n, tokens.x.dtype)
    for k in range(tokens.x.shape[1]):  # a velocity depends on its own token alone
        along = jnp.zeros_like(tokens.x).at[:, k].set(1)
        total = total + jax.jvp(at, (tokens.x,), (along,))[1][:, k]
    return total
