r"""Gradient flows: the dynamics $-\nabla\delta E/\delta\mu$, in a metric."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array
from meanfield._typing import Numbers, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.fields import AbstractField, Affine, Convergence
from meanfield.linalg import HIGHEST
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, AbstractVariation, as_gaussian


class AbstractMetric(eqx.Module):
    """What makes a velocity of the slope of an energy."""

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
    """

    @override
    def descent(self, energy: AbstractEnergy, mu: AbstractMeasure) -> AbstractField:
        if isinstance(mu, Points):
            return Descent(energy.variation(mu))
        by_mean, by_covariance = energy.slopes(as_gaussian(mu))
        linear = -2 * by_covariance
        return Affine(linear, -by_mean - linear @ as_gaussian(mu).mean)


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
        if not isinstance(mu, Points):
            as_gaussian(mu)
            raise NotClosedError(
                "The twisted metric has no closed form on a Gaussian. Use points; or, "
                "for an interaction of symmetric `A`, softmax attention with V = -B A."
            )
        return TwistedDescent(energy.variation(mu), self.score, self.matrix, mu)


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
    """

    energy: AbstractEnergy
    metric: AbstractMetric = Wasserstein()

    @property
    @override
    def jumps(self) -> Float[Array, " k"]:
        return jnp.zeros(0)

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del t
        return self.metric.descent(self.energy, mu)


def dissipation(
    energy: AbstractEnergy, mu: AbstractMeasure, field: AbstractField
) -> Float[Array, ""]:
    r"""$\int\nabla\delta E\cdot v\,d\mu$: $dE/dt$ where `field` moves the measure.

    Negative where energy is lost, and in the clock of the field. On a Gaussian by
    the chain rule through its moments.

    Raises:
        UnsupportedError: if a Gaussian meets a field that is not affine.
    """
    if isinstance(mu, Points):
        power = jnp.sum(energy.gradient(mu, mu.tokens) * field(mu.tokens), axis=1)
        return jnp.sum(jnp.where(jnp.isneginf(mu.log_weights), 0, mu.weights * power))
    gaussian = as_gaussian(mu)
    mean_rate, factor_rate = gaussian.transport(field)
    by_mean, by_covariance = energy.slopes(gaussian)
    half = factor_rate @ gaussian.factor.T
    return by_mean @ mean_rate + 2 * jnp.sum(by_covariance * half)
