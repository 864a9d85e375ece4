"""Energies: numbers that a measure has, with their variations; and their registry."""

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

from ._variation import AbstractVariation, CombinedVariation, combined

R = TypeVar("R")


class AbstractEnergy(eqx.Module):
    r"""A function $E$ of a measure, $+\infty$ where its integrals diverge.

    To write one, say what it is on points, on a density, on the moments of a Gaussian
    (smooth in $\Sigma$ at singular ones too, where that makes sense), and its first
    variation. Energies add up, and multiply by numbers.

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
    def on_points(self, mu: Points) -> Float[Array, ""]:
        """The energy of weighted tokens."""

    @abc.abstractmethod
    def on_grid(self, mu: Grid) -> Float[Array, ""]:
        """The energy of a density; often that of its `points()`."""

    @abc.abstractmethod
    def on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        """The energy of the Gaussian of these moments."""

    @abc.abstractmethod
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        """The first variation at weighted tokens."""

    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        """The first variation at a density; by default at its `points()`."""
        return self.variation_on_points(mu.points())

    @abc.abstractmethod
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        """The first variation at a Gaussian."""

    def variation(self, mu: AbstractMeasure) -> AbstractVariation:
        """The first variation, which works once and then answers for any tokens.

        Raises:
            UnsupportedError: if this energy has no meaning on such a measure.
            NotClosedError: if it has no closed form on a Gaussian.
        """
        return _Variation(self)(mu)

    def __call__(self, mu: AbstractMeasure) -> Float[Array, "*batch"]:
        """The energy of a measure; of a stack, those of its members.

        Raises:
            UnsupportedError: if this energy has no meaning on such a measure.
            NotClosedError: if it has no closed form on a Gaussian.
        """
        return memberwise(_Value(self))(mu)

    def first_variation(
        self, mu: AbstractMeasure, tokens: Tokens
    ) -> Float[Array, " n"]:
        r"""$\delta E(\mu)$ at `tokens`.

        $E(\mu + h\nu) = E(\mu) + h\int \delta E(\mu)\,d\nu + o(h)$ for every $\nu$ of
        total mass zero, so up to a constant; which one, the classes say. Source:
        castin2025, section 5.1, which prints $d\mu$ (ERRATA C15).
        """
        return self.variation(mu)(tokens)

    def gradient(self, mu: AbstractMeasure, tokens: Tokens) -> Float[Array, "n d"]:
        r"""The Wasserstein gradient $\nabla_x \delta E(\mu)(x)$ at `tokens`."""
        return self.variation(mu).gradient(tokens)

    def slopes(self, mu: Gaussian) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        r"""$\partial_\alpha E$ and the symmetric $\partial_\Sigma E$ of a Gaussian.

        With $dE = \partial_\alpha E\cdot d\alpha + \mathrm{tr}(\partial_\Sigma E\,
        d\Sigma)$; at a singular $\Sigma$ too. Both are NaN where the energy is not
        finite: there it has no slope, and not one of zero.
        """
        check_unstacked(mu, "Slopes are those at one measure")
        value, (by_mean, by_covariance) = jax.value_and_grad(
            self.on_gaussian, argnums=(0, 1)
        )(mu.mean, mu.covariance)
        known = jnp.isfinite(value)
        symmetric = (by_covariance + by_covariance.T) / 2
        return jnp.where(known, by_mean, jnp.nan), jnp.where(known, symmetric, jnp.nan)

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
    """Reads a measure for an energy."""

    reads = "Energies read points, Gaussians and grids"


@dataclass(frozen=True)
class _Value(AbstractEnergyReader[Float[Array, ""]]):
    """The energy of a measure."""

    energy: AbstractEnergy

    @override
    def of_points(self, mu: Points) -> Float[Array, ""]:
        return self.energy.on_points(mu)

    @override
    def of_grid(self, mu: Grid) -> Float[Array, ""]:
        return self.energy.on_grid(mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> Float[Array, ""]:
        return self.energy.on_gaussian(mu.mean, mu.covariance)


@dataclass(frozen=True)
class _Variation(AbstractEnergyReader[AbstractVariation]):
    """The first variation of an energy at a measure."""

    energy: AbstractEnergy

    @override
    def of_points(self, mu: Points) -> AbstractVariation:
        return self.energy.variation_on_points(mu)

    @override
    def of_grid(self, mu: Grid) -> AbstractVariation:
        return self.energy.variation_on_grid(mu)

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return self.energy.variation_on_gaussian(mu)


class Combination(AbstractEnergy):
    r"""$\sum_i c_i E_i$; its variation has the constants of its terms.

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
                "A combination needs one factor for each of its energies, at least "
                f"one; got {len(self.factors)} and {len(self.terms)}."
            )

    @override
    def on_points(self, mu: Points) -> Float[Array, ""]:
        return combined(self.factors, [term.on_points(mu) for term in self.terms])

    @override
    def on_grid(self, mu: Grid) -> Float[Array, ""]:
        return combined(self.factors, [term.on_grid(mu) for term in self.terms])

    @override
    def on_gaussian(
        self, mean: Float[Array, " d"], covariance: Float[Array, "d d"]
    ) -> Float[Array, ""]:
        values = [term.on_gaussian(mean, covariance) for term in self.terms]
        return combined(self.factors, values)

    @override
    def variation_on_points(self, mu: Points) -> AbstractVariation:
        return self._combined_at(mu)

    @override
    def variation_on_grid(self, mu: Grid) -> AbstractVariation:
        return self._combined_at(mu)

    @override
    def variation_on_gaussian(self, mu: Gaussian) -> AbstractVariation:
        return self._combined_at(mu)

    def _combined_at(self, mu: AbstractMeasure) -> AbstractVariation:
        terms = tuple(term.variation(mu) for term in self.terms)
        return CombinedVariation(self.factors, terms)


Factory = Callable[..., AbstractEnergy]

energies: Registry[Factory] = Registry("energy")
natural: Registry[str] = Registry("attention with an energy")
"""The energy whose slope an attention follows, where its matrices are symmetric."""

free: Registry[Factory] = Registry("energy of the measure alone")
"""Energies of which the parameters of an attention enter by their dimension alone."""


def energy_of_attention(name: str, *attentions: str) -> Callable[[Factory], Factory]:
    """Registers a factory `(Q, K, V, *, epsilon) -> AbstractEnergy` under `name`.

    Further keywords are its options (`--options NAME=VALUE`) where a run descends it.

    Args:
        name: what `observe` calls it.
        *attentions: the variants that follow its slope.

    Examples:
        >>> from meanfield.energies import energies, natural
        >>> natural["softmax"], natural["sinkhorn"]
        ('interaction', 'sinkhorn')
        >>> natural["sinkhorn"] in energies
        True
    """
    for attention in attentions:
        natural.register(attention)(name)
    return energies.register(name)


def energy_of_measure(name: str) -> Callable[[Factory], Factory]:
    """The same for an energy that no attention enters, but for the dimension of `V`.

    Examples:
        >>> from meanfield.energies import free
        >>> sorted(free)
        ['entropy', 'internal', ..., 'sinkhorn-divergence']
    """
    return lambda make: energies.register(name)(free.register(name)(make))
