"""Energies of measures, their first variations, and the registry of energies."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._registry import Registry
from meanfield._typing import Scalar
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractMeasure,
    AbstractReader,
    Gaussian,
    Grid,
    Points,
    check_unstacked,
    memberwise,
)
from meanfield.tokens import Tokens

from ._variation import AbstractVariation, CombinedVariation, combine

R = TypeVar("R")


class AbstractEnergy(eqx.Module):
    r"""A function $E$ of a measure, which is $+\infty$ where its integrals diverge.

    A subclass implements the first variation, and the values on points, on densities
    and for the moments of a Gaussian. Where possible, the value for a Gaussian is
    smooth even at a singular $\Sigma$. Energies can be added, and multiplied by
    numbers.

    Examples:
        >>> from meanfield import Gaussian, Points
        >>> from meanfield.energies import QuadraticPotential
        >>> energy = 2 * QuadraticPotential(jnp.eye(1))
        >>> print(
        ...     energy(Points.uniform([[-1.0], [1.0]])),
        ...     energy(Gaussian(jnp.zeros(1), jnp.eye(1))),
        ... )
        1.0 1.0
    """

    @abc.abstractmethod
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        """The energy of weighted tokens."""

    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        """The energy of a density; by default, that of `mu.points()`."""
        return self.value_on_points(mu.points())

    @abc.abstractmethod
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        """The energy of the Gaussian with this mean and this covariance."""

    @abc.abstractmethod
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        """The first variation at weighted tokens."""

    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        """The first variation at a density; by default, that at `mu.points()`."""
        return self.variation_on_points(mu.points())

    @abc.abstractmethod
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        """The first variation at a Gaussian."""

    def variation(self, mu: AbstractMeasure) -> AbstractVariation:
        """The first variation at `mu`, a function that can be evaluated at any tokens.

        Expensive work is done once, when this function is made.

        Raises:
            UnsupportedError: if this energy is not defined on such a measure.
            NotClosedError: if it has no closed form on a Gaussian.
        """
        return _Variation(self)(mu)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, "*batch"]:
        """The energy of a measure; for stacked measures, an array of their energies.

        Raises:
            UnsupportedError: if this energy is not defined on such a measure.
            NotClosedError: if it has no closed form on a Gaussian.
        """
        return memberwise(_Value(self))(mu)

    def first_variation(
        self, mu: AbstractMeasure, tokens: Tokens
    ) -> Float[Array, " n"]:
        r"""The first variation $\delta E(\mu)$, evaluated at `tokens`.

        It satisfies $E(\mu + h\nu) = E(\mu) + h\int \delta E(\mu)\,d\nu + o(h)$ for
        every $\nu$ of total mass zero. This determines it up to a constant, which the
        documentation of each class gives. Source: castin2025, section 5.1, which prints
        $d\mu$ instead of $d\nu$ (ERRATA C15).
        """
        return self.variation(mu)(tokens)

    def gradient(self, mu: AbstractMeasure, tokens: Tokens) -> Float[Array, "n d"]:
        r"""The Wasserstein gradient $\nabla_x \delta E(\mu)(x)$ at `tokens`."""
        return self.variation(mu).gradient(tokens)

    def moment_gradients(
        self, mu: Gaussian
    ) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        r"""$\partial_\alpha E$ and the symmetric $\partial_\Sigma E$ of a Gaussian.

        They satisfy $dE = \partial_\alpha E\cdot d\alpha +
        \mathrm{tr}(\partial_\Sigma E\,d\Sigma)$, even at a singular $\Sigma$. If the
        energy is not finite, both gradients are NaN.
        """
        check_unstacked(mu, "Gradients are taken at one measure")
        value, (mean_gradient, covariance_gradient) = jax.value_and_grad(
            self.value_on_gaussian, argnums=(0, 1)
        )(mu.mean, mu.covariance)
        is_finite = jnp.isfinite(value)
        symmetric = (covariance_gradient + covariance_gradient.T) / 2
        return jnp.where(is_finite, mean_gradient, jnp.nan), jnp.where(
            is_finite, symmetric, jnp.nan
        )

    def __add__(self, other: "AbstractEnergy") -> "Combination":
        """The sum of two energies."""
        return Combination((1.0, 1.0), (self, other))

    def __sub__(self, other: "AbstractEnergy") -> "Combination":
        """The difference of two energies."""
        return Combination((1.0, -1.0), (self, other))

    def __mul__(self, factor: Scalar) -> "Combination":
        """The energy times a number."""
        return Combination((factor,), (self,))

    def __rmul__(self, factor: Scalar) -> "Combination":
        """The energy times a number."""
        return self * factor

    def __neg__(self) -> "Combination":
        """Minus the energy."""
        return self * -1.0


class AbstractEnergyReader(AbstractReader[R]):
    """Base class of readers that evaluate an energy on a measure of any type."""

    reads = "Energies read points, Gaussians and grids"


@dataclass(frozen=True)
class _Value(AbstractEnergyReader[Float[Array, ""]]):
    """Reader that returns the energy of a measure of any type."""

    energy: AbstractEnergy

    @override
    def read_points(self, mu: Points) -> Float[Array, ""]:
        return self.energy.value_on_points(mu)

    @override
    def read_grid(self, mu: Grid) -> Float[Array, ""]:
        return self.energy.value_on_grid(mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        return self.energy.value_on_gaussian(mu.mean, mu.covariance)


@dataclass(frozen=True)
class _Variation(AbstractEnergyReader[AbstractVariation]):
    """Reader that returns the first variation of an energy at a measure."""

    energy: AbstractEnergy

    @override
    def read_points(self, mu: Points) -> AbstractVariation:
        return self.energy.variation_on_points(mu)

    @override
    def read_grid(self, mu: Grid) -> AbstractVariation:
        return self.energy.variation_on_grid(mu)

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return self.energy.variation_on_gaussian(mu)


class Combination(AbstractEnergy):
    r"""A linear combination of energies, $\sum_i c_i E_i$.

    The constant in its first variation is the same combination of the constants of the
    terms.

    Attributes:
        factors: $c_i$.
        terms: $E_i$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.energies import Entropy, QuadraticPotential
        >>> free = QuadraticPotential(jnp.eye(1)) + 0.5 * Entropy()
        >>> print(free.factors, free(Gaussian(jnp.zeros(1), jnp.eye(1))))
        (1.0, 1.0) -0.20946...
    """

    factors: tuple[Scalar, ...]
    terms: tuple[AbstractEnergy, ...]

    def __check_init__(self) -> None:
        if not 0 < len(self.factors) == len(self.terms):
            raise InvalidInputError(
                "`Combination` needs at least one energy, and one factor per energy; "
                f"got {len(self.factors)} factors and {len(self.terms)} energies."
            )

    @override
    def value_on_points(self, mu: Points) -> Float[Array, ""]:
        return combine(self.factors, [term.value_on_points(mu) for term in self.terms])

    @override
    def value_on_grid(self, mu: Grid) -> Float[Array, ""]:
        return combine(self.factors, [term.value_on_grid(mu) for term in self.terms])

    @override
    def value_on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        values = [term.value_on_gaussian(mean, covariance) for term in self.terms]
        return combine(self.factors, values)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return self._combine_variations(mu)

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        return self._combine_variations(mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return self._combine_variations(mu)

    def _combine_variations(self, mu: AbstractMeasure) -> AbstractVariation:
        terms = tuple(term.variation(mu) for term in self.terms)
        return CombinedVariation(self.factors, terms)


Factory = Callable[..., AbstractEnergy]

energies: Registry[Factory] = Registry("energy")
attention_energies: Registry[str] = Registry("attention with an energy")
"""The energy whose gradient an attention follows, for symmetric matrices."""

measure_energies: Registry[Factory] = Registry("energy of the measure alone")
"""Energies that depend on an attention only through the dimension of its matrices."""


def energy_of_attention(name: str, *attentions: str) -> Callable[[Factory], Factory]:
    """Registers a factory `(Q, K, V, *, epsilon) -> AbstractEnergy` under `name`.

    Further keywords of the factory are options of the energy, which a run that descends
    this energy sets by `--options NAME=VALUE`.

    Args:
        name: the name of the energy in `observe`.
        *attentions: the variants of attention that follow the gradient of the energy.

    Examples:
        >>> from meanfield.energies import energies, attention_energies
        >>> attention_energies["softmax"], attention_energies["sinkhorn"]
        ('interaction', 'sinkhorn')
        >>> attention_energies["sinkhorn"] in energies
        True
    """
    for attention in attentions:
        attention_energies.register(attention)(name)
    return energies.register(name)


def energy_of_measure(name: str) -> Callable[[Factory], Factory]:
    """Registers the factory of an energy that uses only the dimension of `V`.

    Examples:
        >>> from meanfield.energies import measure_energies
        >>> sorted(measure_energies)
        ['entropy', 'internal', ..., 'sinkhorn-divergence']
    """
    return lambda make: energies.register(name)(measure_energies.register(name)(make))
