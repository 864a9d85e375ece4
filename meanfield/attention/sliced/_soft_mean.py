r"""Means over keys that are matched with tokens by soft sorts."""

import abc
import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.linalg import HIGHEST
from meanfield.measures import use_exact_sums
from meanfield.measures.reductions import Keys
from meanfield.scores import AbstractScore, SquaredDistance
from meanfield.tokens import Tokens

from ._matrices import partner_rows, soft_rows
from ._mean import AbstractSlicedMean, sum_in_blocks
from ._ranks import partner_means, project, sort_side

Mean = TypeVar("Mean", bound="AbstractSoftMean")
MAX_ENTRIES = 2**22  # largest number of entries (32 MB) in the matrices of all slices


class LineDistance(AbstractScore):
    r"""The score $s(u, v) = -|u - v|/t$ on the line."""

    temperature: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return -jnp.abs(queries.x - keys.x.T) / self.temperature


class LineSquare(AbstractScore):
    r"""The score $s(u, v) = -(u - v)^2/t$ on the line, computed from differences.

    Expanding the square would be faster, but inaccurate for small $t$.
    """

    temperature: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return -((queries.x - keys.x.T) ** 2) / self.temperature


class AbstractSoftMean(AbstractSlicedMean):
    r"""The mean of the keys matched with a token by soft sorts of queries and keys.

    The soft sort of queries $u$ is $P_t(u)_{ri} \propto w_i e^{s(u_{(r)}, u_i)}$ with
    rows that sum to one, and likewise for keys $v$. The plan of a slice is
    $P_t(u)^\top I P_t(v)$, where $I$ is the plan by ranks. Its second marginal is not
    $\mu$, and its first marginal is $\mu$ only if rows are divided by their sums
    (shahbazi2025, section 3.1; ERRATA H4).

    Attributes:
        line_score: the score $s$ on the line.
        partners: logs of the row sums of $P_t(u)$, and $I P_t(v)$, for each slice;
            `None` for large clouds, which are summed without matrices.
    """

    line_score: AbstractScore
    partners: tuple[Float[Array, "l m"], Float[Array, "l m n"]] | None = None

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "k n"]:
        if self.partners is None or self._are_many(queries):
            return super().weights_at(queries)
        return jnp.tensordot(self.shares, self._plans(queries, self.partners), 1)

    def _are_many(self, queries: Tokens) -> bool:
        """Whether there are so many tokens that matrices would take too much memory."""
        n_rows = max(self.queries.tokens.n, queries.n)
        return self.directions.shape[0] * n_rows * self.mu.tokens.n > MAX_ENTRIES

    def _plans(
        self, queries: Tokens, partners: tuple[Array, Array]
    ) -> Float[Array, "l k n"]:
        """The plan of each slice, with a row for each of `queries`."""
        u, p = self._query_places(self.queries.safe_tokens), self.queries.probabilities
        plan = lambda points, u, partners: self._scale_rows(
            *soft_rows(self.line_score, points, (u, p), partners)
        )
        return jax.vmap(plan)(self._query_places(queries), u, partners)

    def _query_places(self, tokens: Tokens) -> Float[Array, "l m"]:
        """The places of the queries of `tokens` on each slice."""
        return self.directions @ (tokens.x @ self.score.Q.T).T

    @compile_once
    def match(self: Mean) -> Mean:
        """This mean with `partners`, which costs and all weights share."""
        if self._are_many(self.queries.tokens):
            return self
        u = self._query_places(self.queries.safe_tokens)
        v = self.directions @ (self.mu.safe_tokens.x @ self.score.K.T).T
        p, q = self.queries.probabilities, self.mu.probabilities
        rows = lambda u, v: partner_rows(self.line_score, (u, p), (v, q))
        return dataclasses.replace(self, partners=jax.vmap(rows)(u, v))

    def _distances(self) -> Float[Array, "m n"]:
        r"""Squared distances $|Qx - Ky|^2$ of all queries and keys."""
        queries, keys = map(Tokens, self._images())
        identity = jnp.eye(keys.x.shape[1], dtype=keys.x.dtype)
        return -SquaredDistance(identity, identity)(queries, keys)

    @override
    @compile_once
    def costs(self) -> Float[Array, " l"]:
        r"""Costs $D_l = \int|Qx - Ky|^2\,d\gamma_l$ of the plans of all slices.

        The marginals of $\gamma_l$ need not be $\mu$; costs use the actual marginals.

        Source: shahbazi2025, eq. (10).
        """
        if self.partners is None:
            return self._costs_by_sums()
        plans = self._plans(self.queries.safe_tokens, self.partners)
        p = self.queries.probabilities
        return jnp.einsum("i,lij,ij->l", p, plans, self._distances())

    def _costs_by_sums(self) -> Float[Array, " l"]:
        """The costs, computed from sums over tokens instead of matrices."""
        tokens_of_queries, shares = self.queries.safe_tokens, self.queries.probabilities
        queries, keys = self._images()
        squares = jnp.sum(keys**2, axis=1, keepdims=True)
        columns = jnp.concatenate([jnp.ones_like(squares), squares, keys], axis=1)

        def cost(direction: Array) -> Array:
            means = self._slice_mean(direction, tokens_of_queries, columns)
            products = jnp.sum(queries * means[:, 2:], axis=1)
            squares_of_queries = jnp.sum(queries**2, axis=1) * means[:, 0]
            return shares @ (squares_of_queries + means[:, 1] - 2 * products)

        return jax.lax.map(cost, self.directions)

    def _images(self) -> tuple[Array, Array]:
        """Queries and keys relative to their common centre, to reduce rounding."""
        score = self.score
        q = jnp.matmul(self.queries.safe_tokens.x, score.Q.T, precision=HIGHEST)
        k = jnp.matmul(self.mu.safe_tokens.x, score.K.T, precision=HIGHEST)
        bias = (score.query_bias - score.key_bias) / 2
        origin = (self.queries.probabilities @ q + self.mu.probabilities @ k) / 2
        return q + (bias - origin)[None, :], k - (bias + origin)[None, :]

    @override
    @compile_once
    def _average(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        if self.partners is not None and not self._are_many(tokens):
            return jnp.matmul(self.weights_at(tokens), y, precision=HIGHEST)
        # Slices are computed one by one, since each already uses all cores.
        slice_sum = lambda slices, shares: (
            shares[0] * self._slice_mean(slices[0], tokens, y)
        )
        return sum_in_blocks(slice_sum, self.directions, self.shares, 1)

    def _slice_mean(
        self, direction: Float[Array, " k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """The plan of one slice times the values `y`, for each of `tokens`."""
        return self._scale_rows(*self._soft_means(direction, tokens, y))

    @abc.abstractmethod
    def _scale_rows(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        """The plan times `y`, from `means` of `y` over rows and `log_sums` of rows."""

    def _soft_means(
        self, direction: Float[Array, " k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        """Means of `y` under each row of the plan, and the logs of the row sums."""
        to_query, to_key = direction @ self.score.Q, direction @ self.score.K
        u = project(self.queries.safe_tokens.x, to_query)
        v = project(self.mu.safe_tokens.x, to_key)
        # Chebyshev nodes lie in the space of tokens, so sums on the line are exact.
        log_mean = use_exact_sums(self.mu).reduction.log_mean
        key_means, _ = log_mean(
            self.line_score,
            _line_tokens(v),
            Keys(_line_tokens(v), self.mu.log_weights, y),
        )
        ranks = sort_side(u, self.queries.probabilities)
        partners = partner_means(
            ranks, sort_side(v, self.mu.probabilities), u, key_means
        )
        logs, nothing = self.queries.log_weights, jnp.zeros((u.shape[0], 0), y.dtype)
        _, log_sums = log_mean(
            self.line_score, _line_tokens(u), Keys(_line_tokens(u), logs, nothing)
        )
        points = _line_tokens(project(tokens.x, to_query))
        return log_mean(
            self.line_score, points, Keys(_line_tokens(u), logs - log_sums, partners)
        )


class SoftMean(AbstractSoftMean):
    """The mean of matched keys, for plans whose rows are divided by their sums."""

    @override
    def _scale_rows(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        del log_sums
        return means


class PublishedSoftMean(AbstractSoftMean):
    """The published sum over matched keys, for rows that are not divided by their sums.

    Source: shahbazi2025, section 3.1.
    """

    @override
    def _scale_rows(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        return means * jnp.exp(log_sums)[:, None]


def _line_tokens(line: Float[Array, " n"]) -> Tokens:
    return Tokens(line[:, None])
