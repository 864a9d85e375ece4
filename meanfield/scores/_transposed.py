"""Scores with queries and keys exchanged."""

from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.tokens import Tokens

from ._quadratic import Dot, SquaredDistance
from ._score import AbstractScore


class Transposed(AbstractScore):
    """`score` with queries and keys exchanged: what a key sees of the queries."""

    score: AbstractScore

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return self.score(keys, queries).T


def transposed(score: AbstractScore) -> AbstractScore:
    """`score` with queries and keys exchanged, of its own kind where that is known."""
    if isinstance(score, Dot):
        biases = {"query_bias": score.key_bias, "key_bias": score.query_bias}
        return Dot(score.K, score.Q, score.epsilon, **biases)
    if isinstance(score, SquaredDistance):
        return SquaredDistance(score.K, score.Q, score.epsilon, origin=score.origin)
    return Transposed(score)
