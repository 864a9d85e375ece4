"""An attention to begin from: softmax that gives a share of its weights evenly.

Try it as it stands, then put your formula in the place of each line marked `# yours`:

    meanfield show even --plugin THIS_FILE.py
    meanfield simulate --attention even --A=-1 --n 12 --d 2 --t 1 --plugin THIS_FILE.py

From Python, import this file before you ask for `meanfield.attentions["even"]`.
"""

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


class Even(AbstractRowwise):
    r"""The coupling: how scores $s(x, y)$ become weights $\kappa_\mu(x, y)$.

    Here $(1 - \lambda)\, e^{s(x, y)} / \int e^{s(x, z)} d\mu(z) + \lambda$.
    `AbstractRowwise` says that the weights of a query depend on it and on the keys, and
    on no other query; one that does depend on others derives from `AbstractCoupling`.
    """

    share: Float[Array, ""]  # yours: as many parameters as it has

    @property
    @override
    def rows_sum_to_one(self) -> bool:
        """Whether the weights of a query sum to one, as heads of a model need it."""
        return True  # yours; leave it out if they do not

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        """The field that is asked at tokens, many times for each `mu`.

        What depends on `mu` alone and is expensive is computed here, once.
        """
        return EvenMean(score, mu, self.share)

    @override
    def is_linearly_bounded(
        self, score: AbstractScore, mu: AbstractMeasure
    ) -> Bool[Array, ""]:
        """Whether it is proven that no flow of `mu` blows up.

        True where weights are positive and add up to one, so that the mean of tokens
        lies among them. Leave this method out if you have no proof: then each step is
        watched for a blow-up.
        """
        return jnp.asarray(isinstance(mu, Points))  # yours


class EvenMean(AbstractBarycentre):
    r"""The field $x \mapsto \int y\, \kappa_\mu(x, y)\, d\mu(y)$, with its matrix."""

    score: AbstractScore
    mu: Points
    share: Float[Array, ""]

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        r"""The barycentre at tokens $x$, made of sums over $\mu$.

        `Points` has `tilted_mean`, `log_integral` and `integral`. They need no matrix
        of all pairs, subtract the largest exponent, and leave excluded tokens out.
        """
        near = self.mu.tilted_mean(self.score, tokens)
        return (1 - self.share) * near + self.share * self.mu.mean[None, :]  # yours

    @override
    def weights(self) -> Float[Array, "n n"]:
        r"""The matrix $\kappa_\mu(x_i, x_j)\, w_j$, for the panel `attention`.

        Its product with the tokens must be the barycentre; otherwise the panel raises.
        """
        tokens = self.mu.tokens
        logs = self.score(tokens, tokens) + self.mu.log_weights[None, :]
        even = self.mu.probabilities[None, :]
        near = jax.nn.softmax(logs, axis=1)
        return (1 - self.share) * near + self.share * even  # yours

    @property
    @override
    def convergence(self) -> Convergence | None:
        """How well an iteration converged; `None` for a formula."""
        return None


# The name, and the symmetries that the barycentre has: `permutation` of tokens,
# `orthogonal` changes of basis, `translation`.
@variant("even", "permutation", "orthogonal")
def even(
    Q: Float[Array, "k d"],
    K: Float[Array, "k d"],
    V: Float[Array, "d d"],
    *,
    epsilon: float = 1.0,
    share: float = 0.5,  # set by `--options share=0.2`, swept by `options.share`
) -> Attention:
    r"""Softmax with a share $\lambda$ of the weights given evenly."""
    return Attention(Dot(Q, K, epsilon), Even(jnp.asarray(share, V.dtype)), V)
