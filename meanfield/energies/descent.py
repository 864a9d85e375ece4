r"""Rate of steepest descent of an energy, $-\int|\nabla\delta E|^2\,d\mu$."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.fields import AbstractField, Affine
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points

from ._energy import AbstractEnergy, AbstractEnergyReader
from ._variation import face_gradient_square
from .gradient_flow import Wasserstein


def steepest_rate(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, ""]:
    r"""$dE/dt$ along the gradient flow of an energy, $-\int|\nabla\delta E|^2\,d\mu$.

    This is the `dissipation` of the Wasserstein gradient flow; a flow with another
    dissipation is not the gradient flow. On a Gaussian the metric is the
    Bures--Wasserstein metric, and the rate is $-|\partial_\alpha E|^2 -
    4\operatorname{tr}(\partial_\Sigma E\,\Sigma\,\partial_\Sigma E)$. If
    $\nabla\delta E$ is not affine, this rate is smaller in size than the integral.

    For an energy of the density on a grid, the rate is a sum over the faces between
    cells with mass, and is accurate to second order in the width of cells.

    Raises:
        UnsupportedError: if this energy is not defined on such a measure.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import QuadraticPotential, steepest_rate
        >>> energy = QuadraticPotential(jnp.eye(1))
        >>> print(steepest_rate(energy, Gaussian(jnp.ones(1), jnp.eye(1))))  # -∫|x|²dμ
        -2.0
    """
    return -_Square(energy, Wasserstein().descent(energy, mu))(mu)


@dataclass(frozen=True)
class _Square(AbstractEnergyReader[Float[Array, ""]]):
    r"""Reader that returns $\int|v|^2\,d\mu$ for the descent velocity $v$."""

    energy: AbstractEnergy
    field: AbstractField

    @override
    def read_points(self, mu: Points) -> Float[Array, ""]:
        squares = jnp.sum(mu.transport(self.field) ** 2, axis=1)
        return mu.total(squares)

    @override
    def read_grid(self, mu: Grid) -> Float[Array, ""]:
        if self.field.parts[1] is None:
            return self.read_points(mu.points())
        return face_gradient_square(self.energy.variation(mu), mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        assert isinstance(self.field, Affine)  # descent fields of Gaussians are affine
        mean_velocity = self.field.linear @ mu.mean + self.field.offset
        return mean_velocity @ mean_velocity + jnp.sum(
            (self.field.linear @ mu.factor) ** 2
        )
