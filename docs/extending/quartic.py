"""An energy of the measure alone: a quarter of its fourth moment."""

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.energies import (
    AbstractEnergy,
    AbstractVariation,
    Potential,
    energy_of_measure,
)
from meanfield.measures import Gaussian, Grid, Points


def _quarter(x: Float[Array, " d"]) -> Float[Array, ""]:
    return jnp.sum(x**2) ** 2 / 4


POTENTIAL = Potential(_quarter)


class Quartic(AbstractEnergy):
    r"""$E(\mu) = \tfrac14\int|x|^4d\mu$, a potential that knows itself on Gaussians."""

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        return POTENTIAL.value_on_points(mu)

    @override
    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        return POTENTIAL.value_on_grid(mu)

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        r"""A quarter of the squared mean of $|x|^2$ and its variance."""
        second = jnp.trace(covariance) + mean @ mean
        variance = 2 * jnp.sum(covariance**2) + 4 * mean @ covariance @ mean
        return (second**2 + variance) / 4

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return POTENTIAL.variation_on_points(mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return POTENTIAL.variation_on_gaussian(mu)


@energy_of_measure("quartic")
def quartic(
    Q: Float[Array, "k d"],
    K: Float[Array, "k d"],
    V: Float[Array, "d d"],
    *,
    epsilon: float = 1.0,
) -> Quartic:
    """A quarter of the fourth moment about the origin."""
    del Q, K, V, epsilon
    return Quartic()
