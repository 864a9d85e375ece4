"""Attention whose weights are a function of each score alone: exp, sigmoid."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.errors import NotClosedError
from meanfield.fields import AbstractExplicit, AbstractField
from meanfield.measures import (
    AbstractMeasure,
    Gaussian,
    Link,
    Points,
    exponential,
)
from meanfield.scores import AbstractScore, Dot
from meanfield.tokens import Tokens

from ._attention import Attention, variant
from ._coupling import AbstractBarycentre, AbstractRowwise, AbstractSmearedCoupling
from ._smeared import Averages, LinkedGaussianMean, exp_averages, sigmoid_averages


class Pointwise(AbstractSmearedCoupling, AbstractRowwise):
    r"""$\kappa_\mu(x, y) = \varphi(s(x, y))$; not closed on Gaussians in general.

    Attributes:
        link: $\varphi$, applied entrywise.
        averages: $E\varphi$ and $E\varphi'$ of normal scores; `None` if not known.
        bounded: whether $\varphi$ is known to be.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.attention import Pointwise
        >>> from meanfield.scores import Dot
        >>> mu = Points.uniform([[-1.0], [1.0]])
        >>> cubic = Pointwise(lambda scores: scores**3)
        >>> print(cubic.barycentre(Dot(jnp.eye(1), jnp.eye(1)), mu)(mu.tokens))
        [[-1.]
         [ 1.]]
    """

    link: Link
    averages: Averages | None = None
    bounded: bool = eqx.field(static=True, default=False)

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return LinkedMean(self.link, score, mu)

    @override
    def smeared(self, score: Dot, mu: Gaussian) -> AbstractField:
        if self.averages is None:
            raise NotClosedError("The averages of this link are not known; use points.")
        return LinkedGaussianMean(self.averages, score, mu)

    @override
    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""If the link is bounded: $|\bar y| \leq \sup|\varphi|\int|y|\,d\mu$."""
        return jnp.asarray(self.bounded)


class AbstractCubic(AbstractRowwise):
    """A coupling whose weights grow as scores do, and a velocity as their product."""

    @override
    def linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Never: it is cubic."""
        return jnp.zeros((), bool)

    @override
    def bounded_across(
        self, score: AbstractScore, keys: AbstractMeasure
    ) -> Bool[Array, ""]:
        """If scores are linear in the query: so are the weights, or they are less."""
        return jnp.asarray(isinstance(score, Dot))


class LinkedMean(AbstractExplicit, AbstractBarycentre):
    r"""$x \mapsto \int y\, \varphi(s(x, y))\, d\mu(y)$."""

    link: Link
    score: AbstractScore
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self.mu.integral(self.link, self.score, tokens, self.mu.tokens.x)

    @override
    def weights(self) -> Float[Array, "n n"]:
        scores = self.score(self.mu.tokens, self.mu.tokens)
        return self.link(scores) * self.mu.weights[None, :]


def _sigmoid(scores: Array) -> Array:
    return jax.nn.sigmoid(scores)


@variant("exp", "permutation", "orthogonal", cost="$n^2$")
def exp(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Unnormalised attention, weights $e^{Qx\cdot Ky/\epsilon}$; castin2025, 2.5."""
    return Attention(Dot(Q, K, epsilon), Pointwise(exponential, exp_averages), V)


@variant("sigmoid", "permutation", "orthogonal", cost="$n^2$")
def sigmoid(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Sigmoid attention, $1/(1 + e^{-Qx\cdot Ky/\epsilon})$; castin2025, 2.5."""
    coupling = Pointwise(_sigmoid, sigmoid_averages, bounded=True)
    return Attention(Dot(Q, K, epsilon), coupling, V)
