r"""Couplings: from scores to the weights $\kappa_\mu(x, y)$ of a barycentre."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.errors import UnsupportedError
from meanfield.fields import AbstractField, Affine, Convergence
from meanfield.linalg import product, tilt
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot
from meanfield.tokens import Tokens


class AbstractBarycentre(AbstractField):
    r"""$x \mapsto \int y\, \kappa_\mu(x, y)\, d\mu(y)$ with weights to look at."""

    @abc.abstractmethod
    def weights(self) -> Float[Array, "n n"]:
        r"""$\kappa_\mu(x_i, x_j)\,w_j$: what token `i` of $\mu$ gives to token `j`."""


class AbstractCoupling(eqx.Module):
    r"""A rule that gives $\kappa_\mu(x, y)$ from scores and a measure."""

    @abc.abstractmethod
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        r"""The field $x \mapsto \int y\, \kappa_\mu(x, y)\, d\mu(y)$."""

    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Whether the barycentre is, as `AbstractDynamics.linearly_bounded` says it."""
        del score, mu
        return jnp.zeros((), bool)


class AbstractGaussianCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian is affine; the type is the promise."""

    @abc.abstractmethod
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        """The barycentre of a Gaussian, in closed form."""


class AbstractSmearedCoupling(AbstractCoupling):
    """A coupling whose barycentre of a Gaussian is known, though not affine."""

    @abc.abstractmethod
    def smeared(self, score: Dot, mu: Gaussian) -> AbstractField:
        """The barycentre of a Gaussian, without nodes for the keys.

        Raises:
            NotClosedError: if this one is not known.
        """


class TiltedMean(AbstractBarycentre):
    r"""$x \mapsto \int y\, e^{s(x,y) + g(y)} d\mu(y) / \int e^{s(x,y) + g(y)} d\mu(y)$.

    Attributes:
        score: $s$.
        mu: the tokens looked at.
        potential: $g$ at those tokens, in units of the score; `None` is zero.
        convergence_of_potential: how well $g$ was solved for; `None` if given.
    """

    score: AbstractScore
    mu: Points
    potential: Float[Array, " n"] | None = None
    convergence_of_potential: Convergence | None = None

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.mu.tilted_mean(self.score, tokens, self.potential)

    @override
    def weights(self) -> Float[Array, "n n"]:
        g = 0 if self.potential is None else self.potential
        tokens = self.mu.tokens
        logs = self.score(tokens, tokens) + (self.mu.log_weights + g)[None, :]
        blind = jnp.all(jnp.isneginf(logs), axis=1)  # sees nothing: gives no weight
        return jnp.where(blind[:, None], 0, jax.nn.softmax(logs, axis=1))

    @property
    @override
    def convergence(self) -> Convergence | None:
        return self.convergence_of_potential


def tilted_affine(
    mu: Gaussian,
    A: Float[Array, "d d"],
    B: Float[Array, "d d"] | None,
    a: Float[Array, " d"],
) -> Affine:
    r"""The mean of a Gaussian tilted by $e^{y\cdot(Ax + a) - \frac12 y\cdot By}$.

    $L = P A$ and $b = \alpha + P(a - B\alpha)$ with $P = (\Sigma^{-1} + B)^{-1}$ taken
    without inverses, so any rank of $\Sigma$, $A$ and $B$ will do; `None` is $B = 0$.

    Source: castin2025, Lemmas 4.1 and 4.10; ERRATA C10 for what follows from them.
    """
    pull = a if B is None else a - product(B, mu.mean)
    shift = tilt(mu.factor, B, pull)
    return Affine(tilt(mu.factor, B, A), mu.mean + shift)


def require_dot(score: AbstractScore, coupling: str) -> Dot:
    """`score`, if its closed form with `coupling` is known.

    Raises:
        UnsupportedError: unless it is a `Dot`.
    """
    if not isinstance(score, Dot):
        raise UnsupportedError(
            f"`{coupling}` has a closed form on Gaussians with a `Dot` score only; got "
            f"`{type(score).__name__}`. Use points."
        )
    return score
