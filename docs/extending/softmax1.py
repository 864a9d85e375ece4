"""Softmax with a one in its denominator: a token need not look at any other."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.attention import (
    AbstractBarycentre,
    AbstractRowwise,
    Attention,
    variant,
)
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractMeasure, Points
from meanfield.scores import AbstractScore, Dot
from meanfield.tokens import Tokens


class Softmax1(AbstractRowwise):
    r"""$\kappa_\mu(x, y) = e^{s(x, y)} / (1 + \int e^{s(x, z)} d\mu(z))$."""

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return QuietMean(score, mu)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        r"""Of tokens: their weights add up to less than one."""
        return jnp.asarray(isinstance(mu, Points))


class QuietMean(AbstractBarycentre):
    r"""$x \mapsto \frac{m(x)}{1 + m(x)}\,\bar y(x)$, $m(x) = \int e^{s(x, y)}d\mu(y)$.

    Here $\bar y$ is the barycentre of softmax; both come from sums in the log domain.
    """

    score: AbstractScore
    mu: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        share = jax.nn.sigmoid(self.mu.log_integral(self.score, tokens))
        return share[:, None] * self.mu.tilted_mean(self.score, tokens)

    @override
    def weights(self) -> Float[Array, "n n"]:
        tokens = self.mu.tokens
        logs = self.score(tokens, tokens) + self.mu.log_weights[None, :]
        mass = self.mu.log_integral(self.score, tokens)
        return jnp.exp(logs - jnp.logaddexp(0.0, mass)[:, None])

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None


@variant("softmax1", "permutation", "orthogonal")
def softmax1(
    Q: Float[Array, "k d"],
    K: Float[Array, "k d"],
    V: Float[Array, "d d"],
    *,
    epsilon: float = 1.0,
) -> Attention:
    r"""Softmax over one key more, whose score and value are zero."""
    return Attention(Dot(Q, K, epsilon), Softmax1(), V)
