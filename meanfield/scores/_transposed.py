"""Scores with queries and keys exchanged."""

from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.tokens import Tokens

from ._score import AbstractScore, Dot
from ._squared_distance import SquaredDistance
from .balanced_score import BalancedScore


class TransposedScore(AbstractScore):
    """A score whose queries are the keys of `score`, and vice versa.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import Dot, TransposedScore
        >>> score = Dot(jnp.array([[2.0]]), jnp.array([[1.0]]), query_bias=[1.0])
        >>> x, y = Tokens(jnp.array([[1.0]])), Tokens(jnp.array([[5.0]]))
        >>> print(score(x, y), TransposedScore(score)(y, x))
        [[15.]] [[15.]]
    """

    score: AbstractScore

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return self.score(keys, queries).T


def transpose(score: AbstractScore) -> AbstractScore:
    """Exchanges queries and keys of `score`, and keeps its class where possible.

    Examples:
        >>> from meanfield.scores import Dot, transpose
        >>> score = transpose(Dot(jnp.array([[2.0]]), jnp.array([[1.0]])))
        >>> print(type(score).__name__, score.Q, score.K)
        Dot [[1.]] [[2.]]
    """
    if isinstance(score, Dot):
        biases = {"query_bias": score.key_bias, "key_bias": score.query_bias}
        return Dot(score.K, score.Q, score.epsilon, **biases)
    if isinstance(score, SquaredDistance):
        return SquaredDistance(score.K, score.Q, score.epsilon, origin=score.origin)
    if isinstance(score, BalancedScore):
        return score.transpose
    return TransposedScore(score)
