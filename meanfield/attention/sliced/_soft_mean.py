r"""Means over keys that share their ranks softly: sorts at a temperature."""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.linalg import HIGHEST
from meanfield.measures import exactly
from meanfield.measures.reductions import Keys
from meanfield.scores import AbstractScore, SquaredDistance
from meanfield.tokens import Tokens

from ._matrices import soft_plan
from ._mean import AbstractSlicedMean, blockwise
from ._ranks import matched, projected, sorted_side

FEW = 2**22  # numbers in the matrices of all slices, 32 MB


class LineDistance(AbstractScore):
    r"""$s(u, v) = -|u - v|/t$ on the line."""

    temperature: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return -jnp.abs(queries.x - keys.x.T) / self.temperature


class LineSquare(AbstractScore):
    r"""$s(u, v) = -(u - v)^2/t$ on the line, from differences.

    At small $t$ the sum of squares and products, which is faster, would be lost to
    rounding.
    """

    temperature: Float[Array, ""]

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        return -((queries.x - keys.x.T) ** 2) / self.temperature


class AbstractSoftMean(AbstractSlicedMean):
    r"""The mean of the keys that share their ranks with a token, both sorted softly.

    With $P_t(u)_{ri} \propto w_i e^{s(u_{(r)}, u_i)}$, whose rows sum to one, for
    queries and for keys, the plan of a slice is $P_t(u)^\top I P_t(v)$, where $I$ is
    the plan by ranks. Its second marginal is not $\mu$, nor is its first before rows
    are divided by their sums (shahbazi2025, section 3.1; ERRATA H4).

    Attributes:
        near: $s$, on the line.
    """

    near: AbstractScore

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "k n"]:
        if self._are_many(queries):
            return super().weights_at(queries)
        return jnp.tensordot(self.shares, self._plans(queries), 1)

    def _are_many(self, queries: Tokens) -> bool:
        """Whether matrices, by which few are far sooner matched, would be large."""
        most = max(self.queries.tokens.n, queries.n)
        return self.directions.shape[0] * most * self.mu.tokens.n > FEW

    def _plans(self, queries: Tokens) -> Float[Array, "l k n"]:
        """The rows of some queries in the plan of each slice."""
        places = lambda tokens, matrix: self.directions @ (tokens.x @ matrix.T).T
        at, u = (places(x, self.score.Q) for x in (queries, self.queries.counted))
        v = places(self.mu.counted, self.score.K)
        p, q = self.queries.probabilities, self.mu.probabilities
        plan = lambda at, u, v: self._scaled(*soft_plan(self.near, at, (u, p), (v, q)))
        return jax.vmap(plan)(at, u, v)

    def _distances(self) -> Float[Array, "m n"]:
        r"""$|Qx - Ky|^2$."""
        queries, keys = map(Tokens, self._images())
        one = jnp.eye(keys.x.shape[1], dtype=keys.x.dtype)
        return -SquaredDistance(one, one)(queries, keys)

    @override
    @compile_once
    def costs(self) -> Float[Array, " l"]:
        r"""$D_l = \int|Qx - Ky|^2\,d\gamma_l$, with the marginals that $\gamma_l$ has.

        Source: shahbazi2025, eq. (10).
        """
        if self._are_many(self.queries.tokens):
            return self._costs_by_sums()
        plans, p = self._plans(self.queries.counted), self.queries.probabilities
        return jnp.einsum("i,lij,ij->l", p, plans, self._distances())

    def _costs_by_sums(self) -> Float[Array, " l"]:
        """The same, without matrices."""
        tokens_of_queries, shares = self.queries.counted, self.queries.probabilities
        queries, keys = self._images()
        squares = jnp.sum(keys**2, axis=1, keepdims=True)
        columns = jnp.concatenate([jnp.ones_like(squares), squares, keys], axis=1)

        def cost(direction: Array) -> Array:
            means = self._along(direction, tokens_of_queries, columns)
            products = jnp.sum(queries * means[:, 2:], axis=1)
            squares_of_queries = jnp.sum(queries**2, axis=1) * means[:, 0]
            return shares @ (squares_of_queries + means[:, 1] - 2 * products)

        return jax.lax.map(cost, self.directions)

    def _images(self) -> tuple[Array, Array]:
        """Queries and keys from an origin amid them: less is lost to rounding."""
        score = self.score
        q = jnp.matmul(self.queries.counted.x, score.Q.T, precision=HIGHEST)
        k = jnp.matmul(self.mu.counted.x, score.K.T, precision=HIGHEST)
        apart = (score.query_bias - score.key_bias) / 2
        origin = (self.queries.probabilities @ q + self.mu.probabilities @ k) / 2
        return q + (apart - origin)[None, :], k - (apart + origin)[None, :]

    @override
    @compile_once
    def _averaged(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        if not self._are_many(tokens):
            return jnp.matmul(self.weights_at(tokens), y, precision=HIGHEST)
        # One sum over all pairs already uses the whole machine.
        one = lambda slices, shares: shares[0] * self._along(slices[0], tokens, y)
        return blockwise(one, self.directions, self.shares, 1)

    def _along(
        self, direction: Float[Array, " k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """What the plan of one slice gives of `y`, for each token."""
        return self._scaled(*self._sorted(direction, tokens, y))

    @abc.abstractmethod
    def _scaled(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Means over rows that have these sums."""

    def _sorted(
        self, direction: Float[Array, " k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        """Means over what the rows of the plan give to `y`, and logs of their sums."""
        to_query, to_key = direction @ self.score.Q, direction @ self.score.K
        u = projected(self.queries.counted.x, to_query)
        v = projected(self.mu.counted.x, to_key)
        # Chebyshev nodes are placed in the space of tokens, not on a line.
        log_mean = exactly(self.mu).reduction.log_mean
        by_rank, _ = log_mean(self.near, _on(v), Keys(_on(v), self.mu.log_weights, y))
        ranks = sorted_side(u, self.queries.probabilities)
        partners = matched(ranks, sorted_side(v, self.mu.probabilities), u, by_rank)
        logs, nothing = self.queries.log_weights, jnp.zeros((u.shape[0], 0), y.dtype)
        _, log_sums = log_mean(self.near, _on(u), Keys(_on(u), logs, nothing))
        at = _on(projected(tokens.x, to_query))
        return log_mean(self.near, at, Keys(_on(u), logs - log_sums, partners))


class SoftMean(AbstractSoftMean):
    """Rows divided by their sums: a mean."""

    @override
    def _scaled(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        del log_sums
        return means


class PublishedSoftMean(AbstractSoftMean):
    """As published: rows do not sum to one, so that it is no mean.

    Source: shahbazi2025, section 3.1.
    """

    @override
    def _scaled(
        self, means: Float[Array, "m p"], log_sums: Float[Array, " m"]
    ) -> Float[Array, "m p"]:
        return means * jnp.exp(log_sums)[:, None]


def _on(line: Float[Array, " n"]) -> Tokens:
    return Tokens(line[:, None])
