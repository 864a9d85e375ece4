"""Means of keys over slices, which are weighted by what their plans cost."""

import abc
import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.attention._coupling import AbstractBarycentre
from meanfield.fields import Convergence
from meanfield.linalg import HIGHEST
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._ranks import Side, matched_each, projected, sorted_sides

ABREAST = 2**18  # numbers that are gathered at once: 2 MB


class AbstractSlicedMean(AbstractBarycentre):
    """The mean of the keys that a token is matched with along all slices.

    Attributes:
        score: its `Q` and `K` make queries and keys.
        mu: the keys.
        directions: of the slices.
        shares: of the slices; they sum to one.
        queries: those that share the keys among them.
    """

    score: Dot
    mu: Points
    directions: Float[Array, "l k"]
    shares: Float[Array, " l"]
    queries: Points

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self._averaged(tokens, self.mu.counted.x)

    @override
    def weights(self) -> Float[Array, "m n"]:
        n = self.mu.tokens.n
        return self._averaged(
            self.queries.tokens, jnp.eye(n, dtype=self.directions.dtype)
        )

    @property
    @override
    def convergence(self) -> Convergence | None:
        return None

    @abc.abstractmethod
    def costs(self) -> Float[Array, " l"]:
        r"""$D_l$, up to what all slices share."""

    @abc.abstractmethod
    def _abreast(self, tokens: Tokens, columns: int) -> int:
        """How many slices are summed in one call, so that memory stays bounded."""

    @abc.abstractmethod
    def _along_each(
        self, directions: Float[Array, "s k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> Float[Array, "s m p"]:
        """The mean of `y` along each of some slices."""

    def _averaged(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        """The mean of `y` over slices, as many at a time as are summed abreast."""
        count = self.directions.shape[0]
        size = min(count, self._abreast(tokens, y.shape[1]))
        padded = -(-count // size) * size
        # What fills the last block up weighs nothing.
        filled = jnp.minimum(jnp.arange(padded), count - 1)
        shares = jnp.where(jnp.arange(padded) < count, self.shares[filled], 0)

        def add(sums: Array, slices: tuple[Array, Array]) -> tuple[Array, None]:
            means = self._along_each(slices[0], tokens, y)
            return sums + jnp.tensordot(slices[1], means, 1), None

        nothing = jnp.zeros((tokens.n, y.shape[1]), y.dtype)
        directions = self.directions[filled].reshape(-1, size, self.directions.shape[1])
        parts = directions, shares.reshape(-1, size)
        return jax.lax.scan(add, nothing, parts)[0]


class HardMean(AbstractSlicedMean):
    """The mean over partners by ranks."""

    @override
    def costs(self) -> Float[Array, " l"]:
        r"""$-2\int Qx\cdot Ky\,d\gamma_l$: $D_l$, up to what all slices share."""
        shares = self.queries.probabilities
        queries = _centred(self.queries, self.score.Q)
        keys = _centred(self.mu, self.score.K)
        cost = lambda direction: (
            -2 * shares @ jnp.sum(queries * self._along(direction, keys), axis=1)
        )
        return jax.lax.map(cost, self.directions)

    @override
    def _abreast(self, tokens: Tokens, columns: int) -> int:
        # sorts of few numbers cost more to call than to do
        most = max(tokens.n, self.queries.tokens.n, self.mu.tokens.n)
        return max(1, ABREAST // (most * columns))

    @override
    def _along_each(
        self, directions: Float[Array, "s k"], tokens: Tokens, y: Float[Array, "n p"]
    ) -> Float[Array, "s m p"]:
        to_query, to_key = directions @ self.score.Q, directions @ self.score.K
        queries, keys = _sides(self.queries, to_query), _sides(self.mu, to_key)
        at = jax.vmap(functools.partial(projected, tokens.x))(to_query)
        return matched_each(queries, keys, at, y)

    def _along(
        self, direction: Float[Array, " k"], y: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """Of all queries, along one slice."""
        return self._along_each(direction[None], self.queries.counted, y)[0]


def _sides(mu: Points, directions: Float[Array, "s d"]) -> Side:
    places = jax.vmap(functools.partial(projected, mu.counted.x))(directions)
    return sorted_sides(places, mu.probabilities)


def _centred(mu: Points, matrix: Float[Array, "k d"]) -> Float[Array, "n k"]:
    x = mu.counted.x - mu.mean[None, :]
    return jnp.matmul(x, matrix.T, precision=HIGHEST)


def evenly(directions: Float[Array, "l k"]) -> Float[Array, " l"]:
    """The same share for each slice."""
    count = directions.shape[0]
    return jnp.full(count, 1 / count, directions.dtype)


def weighted(
    field: AbstractSlicedMean, tau: Float[Array, ""] | None
) -> AbstractSlicedMean:
    r"""The same with shares $\propto e^{-\tau D_l/\epsilon}$; `None` leaves them."""
    if tau is None:
        return field
    shares = jax.nn.softmax(-tau / field.score.epsilon * field.costs())
    return dataclasses.replace(field, shares=shares)
