"""Means of keys over slices, which are weighted by what their plans cost."""

import abc
import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.attention._coupling import AbstractBarycentre
from meanfield.fields import AbstractExplicit
from meanfield.linalg import HIGHEST
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens

from ._ranks import Side, matched_each, projected_each, sorted_sides

Slices = TypeVar("Slices")
# Numbers that are gathered at once, 2 MB, and that are sorted.
ABREAST, SORTED = 2**18, 2**17


class AbstractSlicedMean(AbstractExplicit, AbstractBarycentre):
    r"""The mean of the keys that a token is matched with along all slices.

    Attributes:
        score: its `Q` and `K` make queries and keys.
        mu: the keys.
        directions: of the slices.
        shares: of the slices; they sum to one.
        queries: those that share the keys among them.
        tau: $\tau$, by which costs make the shares; `None` if they do not.
    """

    score: Dot
    mu: Points
    directions: Float[Array, "l k"]
    shares: Float[Array, " l"]
    queries: Points
    tau: Float[Array, ""] | None

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self._averaged(tokens, self.mu.counted.x)

    @override
    def weights(self) -> Float[Array, "m n"]:
        return self.weights_at(self.queries.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        n = self.mu.tokens.n
        return self._averaged(queries, jnp.eye(n, dtype=self.directions.dtype))

    def shares_of(self, costs: Float[Array, " l"]) -> Float[Array, " l"]:
        r"""$\sigma_l \propto e^{-\tau D_l/\epsilon}$; as they are without $\tau$."""
        if self.tau is None:
            return self.shares
        return jax.nn.softmax(-self.tau / self.score.epsilon * costs)

    @abc.abstractmethod
    def costs(self) -> Float[Array, " l"]:
        r"""$D_l$, up to what all slices share."""

    @abc.abstractmethod
    def _averaged(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        """The mean of `y` over slices."""


class HardMean(AbstractSlicedMean):
    """The mean over partners by ranks."""

    @override
    @compile_once
    def costs(self) -> Float[Array, " l"]:
        r"""$-2\int Qx\cdot Ky\,d(\gamma_l - \gamma_1)$: $D_l$, up to what all share.

        Partners are compared with those along the first slice: where slices match the
        same groups far apart, nothing large cancels.
        """
        shares = self.queries.probabilities
        queries = _centred(self.queries, self.score.Q)
        keys = _centred(self.mu, self.score.K)
        first = self._along(self.directions[0], keys)

        def cost(direction: Array) -> Array:
            apart = self._along(direction, keys) - first
            return -2 * shares @ jnp.sum(queries * apart, axis=1)

        return jax.lax.map(cost, self.directions)

    @override
    @compile_once
    def _averaged(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        most = max(tokens.n, self.queries.tokens.n, self.mu.tokens.n)

        def mean(sides: tuple[Side, Side, Array], shares: Array) -> Array:
            return jnp.tensordot(shares, matched_each(*sides, y), 1)

        def along(directions: Array, shares: Array) -> Array:
            sides = self._projected(directions, tokens)
            return blockwise(mean, sides, shares, ABREAST // (most * y.shape[1]))

        # Sorts of few numbers cost more to call than to do.
        return blockwise(along, self.directions, self.shares, SORTED // most)

    def _projected(
        self, directions: Float[Array, "s k"], tokens: Tokens
    ) -> tuple[Side, Side, Float[Array, "s m"]]:
        """Queries and keys in order along each of some slices, and places of tokens."""
        to_query, to_key = directions @ self.score.Q, directions @ self.score.K
        queries, keys = _sides(self.queries, to_query), _sides(self.mu, to_key)
        return queries, keys, projected_each(tokens.x, to_query)

    def _along(
        self, direction: Float[Array, " k"], y: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """Of all queries, along one slice."""
        sides = self._projected(direction[None], self.queries.counted)
        return matched_each(*sides, y)[0]


def blockwise(
    summed: Callable[[Slices, Float[Array, " s"]], Float[Array, "m p"]],
    slices: Slices,
    shares: Float[Array, " l"],
    size: int,
) -> Float[Array, "m p"]:
    """The sum over slices, of which `size` are summed at once, or one.

    Args:
        summed: the weighted sum over some of them.
        slices: a stack along the first axis, or several of one length.
        shares: their weights.
        size: how many; memory is in proportion.
    """
    count = shares.shape[0]
    size = min(count, max(size, 1))
    if size == count:
        return summed(slices, shares)
    filled = -count % size  # what fills the last block up weighs nothing
    ends = lambda leaf: [(0, filled)] + [(0, 0)] * (leaf.ndim - 1)
    block = lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:])
    copies = lambda leaf: block(jnp.pad(leaf, ends(leaf), mode="edge"))
    blocks = jax.tree.map(copies, slices), block(jnp.pad(shares, (0, filled)))
    one = jax.eval_shape(lambda blocks: summed(*jax.tree.map(_first, blocks)), blocks)
    add = lambda sums, some: (sums + summed(*some), None)
    return jax.lax.scan(add, jnp.zeros(one.shape, one.dtype), blocks)[0]


def _first(stack: Array) -> Array:
    return stack[0]


def _sides(mu: Points, directions: Float[Array, "s d"]) -> Side:
    return sorted_sides(projected_each(mu.counted.x, directions), mu.probabilities)


def _centred(mu: Points, matrix: Float[Array, "k d"]) -> Float[Array, "n k"]:
    x = mu.counted.x - mu.mean[None, :]
    return jnp.matmul(x, matrix.T, precision=HIGHEST)


def evenly(directions: Float[Array, "l k"]) -> Float[Array, " l"]:
    """The same share for each slice."""
    count = directions.shape[0]
    return jnp.full(count, 1 / count, directions.dtype)


def weighted(field: AbstractSlicedMean) -> AbstractSlicedMean:
    r"""The same with shares $\propto e^{-\tau D_l/\epsilon}$; `None` leaves them."""
    if field.tau is None:
        return field
    return dataclasses.replace(field, shares=field.shares_of(field.costs()))
