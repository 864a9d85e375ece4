r"""Gradient flows: the dynamics $-\nabla\delta E/\delta\mu$, in a metric."""

import abc
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, require
from meanfield._typing import Numbers, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import AbstractField, Affine, Convergence
from meanfield.linalg import HIGHEST
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._energy import (
    AbstractEnergy,
    AbstractEnergyReader,
    AbstractVariation,
    CombinedVariation,
)
from .entropy import LogCellDensity


class AbstractMetric(eqx.Module):
    """What makes a velocity of the slope of an energy.

    Examples:
        >>> from meanfield.energies import AbstractMetric, Twisted, Wasserstein
        >>> issubclass(Wasserstein, AbstractMetric), issubclass(Twisted, AbstractMetric)
        (True, True)
    """

    @abc.abstractmethod
    def descent(self, energy: AbstractEnergy, mu: AbstractMeasure) -> AbstractField:
        """The steepest descent of `energy` at `mu`."""


class Wasserstein(AbstractMetric):
    r"""$v = -\nabla\delta E$; on Gaussians the Bures--Wasserstein gradient.

    There $L = -2\partial_\Sigma E$ and $b = -\partial_\alpha E - L\alpha$, so that
    $\alpha' = -\partial_\alpha E$ and $\Sigma' = -2(\partial_\Sigma E\,\Sigma +
    \Sigma\,\partial_\Sigma E)$: castin2025, eq. (5.9), with its signs and the inverse
    metric (5.10) put right (ERRATA C17, C18). It is $-\nabla\delta E$ itself where that
    is affine, and its projection in $L^2(\mu)$ on affine gradients elsewhere.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.energies import QuadraticPotential, Wasserstein
        >>> mu = Points.uniform([[1.0], [3.0]])
        >>> print(Wasserstein().descent(QuadraticPotential(jnp.eye(1)), mu)(mu.tokens))
        [[-1.]
         [-3.]]
    """

    @override
    def descent(self, energy: AbstractEnergy, mu: AbstractMeasure) -> AbstractField:
        return _Steepest(energy)(mu)


class Twisted(AbstractMetric):
    r"""$v(x) = -B\,\nabla\delta E(x) / \int e^{s(x,y)}\,d\mu(y)$, on points.

    The metric $d_{A,V}$ of castin2025, section 5.4. For `Interaction(score)` with a
    `Dot` score of symmetric $A$ it gives softmax attention with $V = -BA$, that is
    $B = -VA^{-\top}$, eq. (5.14); the symmetry of $A$ is needed (ERRATA C20). The
    slope and the integral are divided as numbers: scores above the logarithm of the
    largest float give NaN.

    Attributes:
        score: $s$.
        matrix: $B$, symmetric positive definite for a metric; not checked.

    Raises:
        InvalidInputError: if `matrix` is not square.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.energies import GradientFlow, Interaction, Twisted
        >>> from meanfield.scores import Dot
        >>> one, score = jnp.eye(1), Dot(jnp.eye(1), jnp.eye(1))
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> descent = GradientFlow(Interaction(score), Twisted(score, one)).field(
        ...     0.0, mu
        ... )
        >>> softmax = attentions["softmax"](one, one, -one).field(0.0, mu)
        >>> print(jnp.allclose(descent(mu.tokens), softmax(mu.tokens)))
        True
    """

    score: AbstractScore
    matrix: Float[Array, "d d"]

    def __init__(self, score: AbstractScore, matrix: Numbers) -> None:
        self.score = score
        self.matrix = float_array("matrix", matrix)
        shape = self.matrix.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidInputError(f"`matrix` must be square; got shape {shape}.")

    @override
    def descent(self, energy: AbstractEnergy, mu: AbstractMeasure) -> AbstractField:
        return _Twist(self, energy)(mu)


@dataclass(frozen=True)
class _Steepest(AbstractEnergyReader[AbstractField]):
    """The Wasserstein gradient of an energy, downwards."""

    energy: AbstractEnergy

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return Descent(_followed(self.energy.variation(mu)))

    @override
    def of_grid(self, mu: Grid) -> AbstractField:
        return Descent(_followed(self.energy.variation(mu)))

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        by_mean, by_covariance = self.energy.slopes(mu)
        linear = -2 * by_covariance
        return Affine(linear, -by_mean - linear @ mu.mean)


@dataclass(frozen=True)
class _Twist(AbstractEnergyReader[AbstractField]):
    """The gradient of an energy in a twisted metric, downwards."""

    metric: Twisted
    energy: AbstractEnergy

    @override
    def of_points(self, mu: Points) -> AbstractField:
        return self._descent(mu, mu)

    @override
    def of_grid(self, mu: Grid) -> AbstractField:
        return self._descent(mu, mu.points())

    @override
    def of_gaussian(self, mu: Gaussian) -> AbstractField:
        raise NotClosedError(
            "The twisted metric has no closed form on a Gaussian. Use points; or, for "
            "an interaction of symmetric `A`, softmax attention with V = -B A."
        )

    def _descent(self, mu: AbstractMeasure, points: Points) -> AbstractField:
        variation = _followed(self.energy.variation(mu))
        return TwistedDescent(variation, self.metric.score, self.metric.matrix, points)


class Descent(AbstractField):
    r"""$-\nabla\delta E$, at any tokens."""

    variation: AbstractVariation

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return -self.variation.gradient(tokens)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.variation.convergence


class TwistedDescent(AbstractField):
    r"""$-B\,\nabla\delta E / \int e^{s}\,d\mu$, at any tokens."""

    variation: AbstractVariation
    score: AbstractScore
    matrix: Float[Array, "d d"]
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        slope = self.variation.gradient(tokens)
        mass = jnp.exp(self.mu.log_integral(self.score, tokens))
        return -jnp.matmul(slope, self.matrix.T, precision=HIGHEST) / mass[:, None]

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.variation.convergence


class GradientFlow(AbstractDynamics):
    r"""The steepest descent of an energy.

    For the Wasserstein metric $\partial_t\mu = \nabla\cdot(\mu\nabla\delta E)$.
    Source: castin2025, eqs. (5.4)--(5.7); uw2023, whose flow it is.

    Attributes:
        energy: $E$.
        metric: what steepest is measured in.

    Examples:
        >>> from meanfield import Gaussian, flow
        >>> from meanfield.energies import GradientFlow, QuadraticPotential
        >>> fall = GradientFlow(QuadraticPotential(jnp.eye(1)))
        >>> run = flow(fall, Gaussian(jnp.ones(1), jnp.eye(1)), [0.0, 1.0])
        >>> print(run.final.mean, np.exp(-1))
        [0.3679] 0.36787...
    """

    energy: AbstractEnergy
    metric: AbstractMetric = Wasserstein()

    def __check_init__(self) -> None:
        require("A gradient flow descends an energy", self.energy, AbstractEnergy)
        require("`metric` is one such as `Wasserstein()`", self.metric, AbstractMetric)

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.zeros(0)

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del t
        return self.metric.descent(self.energy, mu)

    @override
    def linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """No energy tells how steep it is."""
        return jnp.zeros((), bool)


def dissipation(
    energy: AbstractEnergy, mu: AbstractMeasure, field: AbstractField
) -> Float[Array, ""]:
    r"""$\int\nabla\delta E\cdot v\,d\mu$: $dE/dt$ where `field` moves the measure.

    Negative where energy is lost, and in the clock of the field. On a Gaussian by
    the chain rule through its moments; on a grid as on its `points()`, mass that leaves
    through the ends of the box not counted; on a measure that is read by its nodes by
    the chain rule through its coordinates, which need not follow the field itself.

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
    r"""$\int\nabla\delta E\cdot v\,d\mu$; of an entropy $-\int\nabla\cdot v\,d\mu$."""
    if isinstance(variation, CombinedVariation):
        powers = [_power(term, mu, field) for term in variation.terms]
        return jnp.asarray(variation.factors) @ jnp.stack(powers)
    if isinstance(variation, LogCellDensity):  # by parts: a density may have jumps
        power = -divergence(field, mu.tokens)
    else:
        power = jnp.sum(variation.gradient(mu.tokens) * field(mu.tokens), axis=1)
    return jnp.sum(jnp.where(jnp.isneginf(mu.log_weights), 0, mu.weights * power))


def divergence(field: AbstractField, tokens: Tokens) -> Float[Array, " n"]:
    r"""$\nabla\cdot v$ at `tokens`."""
    at = lambda x: field(Tokens(x, tokens.position))
    total = jnp.zeros(tokens.n, tokens.x.dtype)
    for k in range(tokens.x.shape[1]):  # a velocity depends on its own token alone
        along = jnp.zeros_like(tokens.x).at[:, k].set(1)
        total = total + jax.jvp(at, (tokens.x,), (along,))[1][:, k]
    return total


def _followed(variation: AbstractVariation) -> AbstractVariation:
    """A variation whose slope moves a measure by a velocity, in stable steps.

    Raises:
        UnsupportedError: if it holds the entropy of a density: explicit steps, as long
            as a velocity allows, would make its cells oscillate.
    """
    if isinstance(variation, CombinedVariation):
        return CombinedVariation(
            variation.factors, tuple(_followed(term) for term in variation.terms)
        )
    if isinstance(variation, LogCellDensity):
        raise UnsupportedError(
            "On a grid the flow of the entropy is diffusion: leave the entropy out of "
            "the energy, and give the flow `noise=Isotropic(kappa)` instead."
        )
    return variation
