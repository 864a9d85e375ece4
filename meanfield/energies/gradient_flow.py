r"""Gradient flows of energies, in the Wasserstein or a twisted metric."""

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
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points, check_no_shear
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._energy import AbstractEnergy, AbstractEnergyReader
from ._variation import AbstractVariation, CellVariation, CombinedVariation, parts_of


class AbstractMetric(eqx.Module):
    """A metric, which turns the gradient of an energy into a velocity.

    Examples:
        >>> from meanfield.energies import AbstractMetric, TwistedMetric, Wasserstein
        >>> [issubclass(M, AbstractMetric) for M in (Wasserstein, TwistedMetric)]
        [True, True]
    """

    @abc.abstractmethod
    def descent(self, energy: AbstractEnergy, mu: AbstractMeasure) -> AbstractField:
        """The velocity field of steepest descent of `energy` at `mu`."""


class Wasserstein(AbstractMetric):
    r"""The Wasserstein metric, $v = -\nabla\delta E$ (Bures--Wasserstein on Gaussians).

    On Gaussians $L = -2\partial_\Sigma E$ and $b = -\partial_\alpha E - L\alpha$, so
    that $\alpha' = -\partial_\alpha E$ and $\Sigma' = -2(\partial_\Sigma E\,\Sigma +
    \Sigma\,\partial_\Sigma E)$. This field is the projection of $-\nabla\delta E$ onto
    affine gradients in $L^2(\mu)$; it equals $-\nabla\delta E$ if that is affine.
    Source: castin2025, eq. (5.9), with its signs and the inverse metric (5.10)
    corrected (ERRATA C17, C18).

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
        return _SteepestDescent(energy)(mu)


class TwistedMetric(AbstractMetric):
    r"""$v(x) = -B\,\nabla\delta E(x) / \int e^{s(x,y)}\,d\mu(y)$, on points and grids.

    This is the metric $d_{A,V}$ of castin2025, section 5.4. For `Interaction(score)`
    with a `Dot` score and a symmetric $A$, it gives softmax attention with $V = -BA$,
    that is, $B = -VA^{-\top}$, eq. (5.14); $A$ must be symmetric (ERRATA C20). The
    gradient is divided by the integral outside the log domain, so scores above the
    logarithm of the largest float give NaN.

    Attributes:
        score: $s$.
        matrix: $B$, which should be symmetric positive definite; this is not checked.

    Raises:
        InvalidInputError: if `matrix` is not square.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.energies import GradientFlow, Interaction, TwistedMetric
        >>> from meanfield.scores import Dot
        >>> one, score = jnp.eye(1), Dot(jnp.eye(1), jnp.eye(1))
        >>> mu = Points.uniform([[0.0], [1.0]])
        >>> descent = GradientFlow(Interaction(score), TwistedMetric(score, one)).field(
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
class _SteepestDescent(AbstractEnergyReader[AbstractField]):
    """Reader that returns the negative Wasserstein gradient of an energy."""

    energy: AbstractEnergy

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return Descent(self.energy.variation(mu))

    @override
    def read_grid(self, mu: Grid) -> AbstractField:
        parts = parts_of(self.energy.variation(mu))
        cell_terms = [(c, part) for c, part in parts if isinstance(part, CellVariation)]
        token_terms = [
            (c, part) for c, part in parts if not isinstance(part, CellVariation)
        ]
        velocity = Descent(_combine_terms(token_terms)) if token_terms else Total(())
        if not cell_terms:
            return velocity
        check_no_shear(mu)
        _check_spreads(cell_terms)
        forces = [c * part.forces for c, part in cell_terms]
        return CellDescent(velocity, sum(forces[1:], forces[0]))

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        mean_gradient, covariance_gradient = self.energy.moment_gradients(mu)
        linear = -2 * covariance_gradient
        return Affine(linear, -mean_gradient - linear @ mu.mean)


@dataclass(frozen=True)
class _Twist(AbstractEnergyReader[AbstractField]):
    """Reader that returns the negative gradient of an energy in a twisted metric."""

    metric: TwistedMetric
    energy: AbstractEnergy

    @override
    def read_points(self, mu: Points) -> AbstractField:
        return self._descent(mu, mu)

    @override
    def read_grid(self, mu: Grid) -> AbstractField:
        return self._descent(mu, mu.points())

    @override
    def read_gaussian(self, mu: Gaussian) -> AbstractField:
        raise NotClosedError(
            "The twisted metric has no closed form on a Gaussian. Use points, or (for "
            "an interaction with symmetric `A`) softmax attention with V = -B A."
        )

    def _descent(self, mu: AbstractMeasure, points: Points) -> AbstractField:
        variation = self.energy.variation(mu)
        if any(isinstance(part, CellVariation) for _, part in parts_of(variation)):
            raise UnsupportedError(
                "A twisted metric does not support energies of a density, whose "
                "descent moves mass between cells. Use the default metric, "
                "`Wasserstein()`."
            )
        return TwistedDescent(variation, self.metric.score, self.metric.matrix, points)


class Descent(AbstractField):
    r"""The field $-\nabla\delta E$."""

    variation: AbstractVariation

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return -self.variation.gradient(tokens)

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.variation.convergence


class CellDescent(AbstractField):
    r"""The field $-\nabla\delta E$ on a grid, which also moves mass between cells.

    This field cannot be evaluated at tokens; `parts` returns its velocity and its
    forces.
    """

    velocity: AbstractField
    forces: CellForces

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        raise UnsupportedError(
            "The descent of an energy of a density moves mass between the cells of its "
            "grid, and has no velocity at tokens. Use this gradient flow alone or in a "
            "`Sum`, not inside other dynamics."
        )

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.velocity.convergence

    @property
    @override
    def parts(self) -> tuple[AbstractField, CellForces | None]:
        return self.velocity, self.forces


class TwistedDescent(AbstractField):
    r"""The field $-B\,\nabla\delta E / \int e^{s}\,d\mu$."""

    variation: AbstractVariation
    score: AbstractScore
    matrix: Float[Array, "d d"]
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        gradient = self.variation.gradient(tokens)
        mass = jnp.exp(self.mu.log_integral(self.score, tokens))
        return -jnp.matmul(gradient, self.matrix.T, precision=HIGHEST) / mass[:, None]

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.variation.convergence


class GradientFlow(AbstractDynamics):
    r"""The gradient flow (steepest descent) of an energy.

    For the Wasserstein metric, $\partial_t\mu = \nabla\cdot(\mu\nabla\delta E)$.
    Source: castin2025, eqs. (5.4)--(5.7); uw2023.

    Attributes:
        energy: $E$.
        metric: the metric that defines the gradient.

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
        require("`GradientFlow` needs an energy", self.energy, AbstractEnergy)
        require("`metric` must be an `AbstractMetric`", self.metric, AbstractMetric)

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        del t
        return self.metric.descent(self.energy, mu)

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        """Always false, since no bound on the gradients of energies is known."""
        return jnp.zeros((), bool)


def _check_spreads(parts: Sequence[tuple[Scalar, CellVariation]]) -> None:
    """Raises if a negative factor makes the flow backward diffusion.

    Raises:
        UnsupportedError: if a factor is known to be negative.
    """
    for factor, part in parts:
        if part.pressure is not None and is_concrete(factor) and factor < 0:
            raise UnsupportedError(
                "The factor of an energy of a density must be positive: with a factor "
                "below zero, descent is backward diffusion, which is ill-posed."
            )


def _combine_terms(parts: list[tuple[Scalar, AbstractVariation]]) -> AbstractVariation:
    factors, terms = zip(*parts, strict=True)
    return terms[0] if factors == (1.0,) else CombinedVariation(factors, terms)
