r"""How fast an energy can be lost: $\int|\nabla\delta E|^2\,d\mu$."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractField, Affine
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points

from ._energy import AbstractEnergy, AbstractEnergyReader
from ._variation import slope_between
from .gradient_flow import Wasserstein


def steepest(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, ""]:
    r"""$-\int|\nabla\delta E|^2\,d\mu$: $dE/dt$ along the gradient flow of an energy.

    A flow of this `dissipation` loses the energy as its Wasserstein gradient flow
    would, a flow of any other does not follow it. On a Gaussian the gradient is the
    Bures--Wasserstein one, and this is $-|\partial_\alpha E|^2 - 4\operatorname{tr}
    (\partial_\Sigma E\,\Sigma\,\partial_\Sigma E)$, less than the integral where
    $\nabla\delta E$ is not affine.

    On a grid, where the energy is one of the density, a sum over the faces between
    cells that hold mass, of second order in their width.

    Raises:
        UnsupportedError: if this energy has no meaning on such a measure.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import QuadraticPotential, steepest
        >>> energy = QuadraticPotential(jnp.eye(1))
        >>> print(steepest(energy, Gaussian(jnp.ones(1), jnp.eye(1))))  # -∫|x|²dμ
        -2.0
    """
    return -_Square(energy, Wasserstein().descent(energy, mu))(mu)


@dataclass(frozen=True)
class _Square(AbstractEnergyReader[Float[Array, ""]]):
    r"""$\int|v|^2\,d\mu$ of the descent of an energy."""

    energy: AbstractEnergy
    field: AbstractField

    @override
    def of_points(self, mu: Points) -> Float[Array, ""]:
        squares = jnp.sum(self.field(mu.tokens) ** 2, axis=1)
        return mu.total(squares)

    @override
    def of_grid(self, mu: Grid) -> Float[Array, ""]:
        if self.field.parted[1] is None:
            return self.of_points(mu.points())
        return slope_between(self.energy.variation(mu), mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        assert isinstance(self.field, Affine)  # as every descent of a Gaussian is
        at_mean = self.field.linear @ mu.mean + self.field.offset
        return at_mean @ at_mean + jnp.sum((self.field.linear @ mu.factor) ** 2)
