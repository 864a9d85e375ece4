r"""Sums for queries and keys that stand still, by one matrix of exponentials.

The faces and the cells of a sphere stand still, and only the weights change. So the
exponentials $e^{x\cdot Ay}$ are computed once, before a flow.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.linalg import HIGHEST
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Dense,
    Keys,
    Link,
    exponential,
)
from meanfield.scores import AbstractScore, Dot
from meanfield.tokens import Tokens

DENSE_UP_TO = 2048  # largest number of keys for which all scores are kept in memory
MAX_ENTRIES = 2**23  # largest matrix of exponentials, of 64 MiB


class FixedRows(AbstractReduction):
    r"""Sums by a matrix of the exponentials $e^{x_i\cdot Ay_j - m_i}$ for `Dot` scores.

    For other queries, keys or matrices $A$, sums are computed by `fallback`. So they
    are for rows whose sum underflows.

    Attributes:
        score: the score without biases.
        queries: the queries $x_i$.
        keys: the keys $y_j$.
        exponentials: the matrix.
        largest: $m_i$, the largest score of each row.
        fallback: how other sums are computed.
    """

    score: Dot
    queries: Tokens
    keys: Tokens
    exponentials: Float[Array, "m n"]
    largest: Float[Array, " m"]
    fallback: AbstractReduction

    @classmethod
    def from_score(cls, score: Dot, queries: Tokens, keys: Tokens) -> AbstractReduction:
        """The sums for a score, or exact sums if the matrix would be too large."""
        fallback = Dense() if keys.n <= DENSE_UP_TO else Blocked()
        if queries.n * keys.n > MAX_ENTRIES:
            return fallback
        scores = score.bilinear(queries, keys)
        largest = jnp.max(scores, axis=1)
        exponentials = jnp.exp(scores - largest[:, None])
        return cls(score.bilinear, queries, keys, exponentials, largest, fallback)

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        if not self._has_shape(score, queries, keys):
            return self.fallback.log_mean(score, queries, keys)
        assert isinstance(score, Dot)
        terms = score.key_terms(keys.tokens.x) + keys.log_weights
        top = jax.lax.stop_gradient(jnp.max(terms))
        weights = jnp.exp(terms - jnp.where(jnp.isfinite(top), top, 0))
        columns = jnp.concatenate([jnp.ones_like(keys.values[:, :1]), keys.values], 1)
        sums = self._products(weights[:, None] * columns)
        tiny = jnp.finfo(sums.dtype).tiny / jnp.finfo(sums.dtype).eps
        is_usable = self._is_fixed(score, queries, keys) & jnp.all(sums[:, 0] > tiny)
        shift = self.largest + score.query_terms(queries.x) + top
        return jax.lax.cond(
            is_usable,
            lambda: (sums[:, 1:] / sums[:, :1], jnp.log(sums[:, 0]) + shift),
            lambda: self.fallback.log_mean(score, queries, keys),
        )

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is not exponential or not self._has_shape(score, queries, keys):
            return self.fallback.integral(link, score, queries, keys)
        assert isinstance(score, Dot)
        weights = jnp.exp(score.key_terms(keys.tokens.x) + keys.log_weights)
        scale = jnp.exp(self.largest + score.query_terms(queries.x))
        sums = scale[:, None] * self._products(weights[:, None] * keys.values)
        return jax.lax.cond(
            self._is_fixed(score, queries, keys),
            lambda: sums,
            lambda: self.fallback.integral(link, score, queries, keys),
        )

    def _products(self, columns: Float[Array, "n p"]) -> Float[Array, "m p"]:
        return jnp.matmul(self.exponentials, columns, precision=HIGHEST)

    def _has_shape(self, score: AbstractScore, queries: Tokens, keys: Keys) -> bool:
        """Whether the numbers of queries and keys are those of the matrix."""
        shape = (queries.n, keys.tokens.n)
        return isinstance(score, Dot) and shape == self.exponentials.shape

    def _is_fixed(self, score: Dot, queries: Tokens, keys: Keys) -> Bool[Array, ""]:
        """Whether a sum is one of those that the matrix was computed for."""
        pairs = (
            (score.A, self.score.A),
            (queries.x, self.queries.x),
            (keys.tokens.x, self.keys.x),
        )
        return jnp.all(jnp.stack([jnp.all(a == b) for a, b in pairs]))
