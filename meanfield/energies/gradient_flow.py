r"""Gradient flows: the dynamics $-\nabla\delta E/\delta\mu$, in a metric."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._array import float_array, is_concrete, require
from meanfield._forces import CellForces
from meanfield._typing import Numbers, Scalar, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError, NotClosedError, UnsupportedError
from meanfield.fields import AbstractField, Affine, Convergence, Total
from meanfield.linalg import HIGHEST
from meanfield.measures import (
    AbstractMeasure,
    Gaussian,
    Grid,
    Points,
    check_upright,
)
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._energy import (
    AbstractEnergy,
    AbstractEnergyReader,
)
from ._variation import AbstractVariation, CellVariation, CombinedVariation, parts_of


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
        return Descent(self.energy.variation(mu))

    @override
    def of_grid(self, mu: Grid) -> AbstractField:
        parts = parts_of(self.energy.variation(mu))
        between = [(c, part) for c, part in parts if isinstance(part, CellVariation)]
        others = [(c, part) for c, part in parts if not isinstance(part, CellVariation)]
        velocity = Descent(_combined(others)) if others else Total(())
        if not between:
            return velocity
        check_upright(mu)
        _check_spreads(between)
        forces = [c * part.forces for c, part in between]
        return CellDescent(velocity, sum(forces[1:], forces[0]))

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
        variation = self.energy.variation(mu)
        if any(isinstance(part, CellVariation) for _, part in parts_of(variation)):
            raise UnsupportedError(
                "In a twisted metric the energy of a density is followed by no flux "
                "between cells; leave it out, or use `Wasserstein()`."
            )
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


class CellDescent(AbstractField):
    r"""$-\nabla\delta E$ on a grid, of which a part moves mass between cells.

    It is no velocity that could be asked for at tokens; `parted` has both parts.
    """

    velocity: AbstractField
    forces: CellForces

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        raise UnsupportedError(
            "The descent of the energy of a density moves mass between the cells of "
            "its grid, and is no velocity at tokens: a flow follows it by itself, or "
            "in a `Sum`, and in no other dynamics."
        )

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.velocity.convergence

    @property
    @override
    def parted(self) -> tuple[AbstractField, CellForces | None]:
        return self.velocity, self.forces


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


def _check_spreads(parts: Sequence[tuple[Scalar, CellVariation]]) -> None:
    """Refuses to run diffusion backwards.

    Raises:
        UnsupportedError: if a factor is known to be negative.
    """
    for factor, part in parts:
        if part.pressure is not None and is_concrete(factor) and factor < 0:
            raise UnsupportedError(
                "The descent of minus the energy of a density is diffusion run "
                "backwards, which no grid can follow."
            )


def _combined(parts: list[tuple[Scalar, AbstractVariation]]) -> AbstractVariation:
    factors, terms = zip(*parts, strict=True)
    return terms[0] if factors == (1.0,) else CombinedVariation(factors, terms)
