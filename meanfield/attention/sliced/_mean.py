"""Means of keys over all slices, which are weighted by the costs of their plans."""

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

from ._ranks import Side, project_slices, slice_partner_means, sort_sides

Slices = TypeVar("Slices")
# One block gathers and sorts at most these numbers of entries; 2**18 entries are 2 MB.
GATHER_SIZE, SORT_SIZE = 2**18, 2**17


class AbstractSlicedMean(AbstractExplicit, AbstractBarycentre):
    r"""The mean, over all slices, of the keys that are matched with a token.

    Attributes:
        score: the score, whose `Q` and `K` define queries and keys.
        mu: the keys.
        directions: directions of the slices.
        shares: weights of the slices; they sum to one.
        queries: the queries that the keys are matched with.
        tau: inverse temperature $\tau$ of the weights; `None` if they do not depend on
            costs.
    """

    score: Dot
    mu: Points
    directions: Float[Array, "l k"]
    shares: Float[Array, " l"]
    queries: Points
    tau: Float[Array, ""] | None

    @override
    def __call__(self, tokens: Tokens) -> Float[Array, "n d"]:
        return self._average(tokens, self.mu.safe_tokens.x)

    @override
    def weights(self) -> Float[Array, "m n"]:
        return self.weights_at(self.queries.tokens)

    @override
    def weights_at(self, queries: Tokens) -> Float[Array, "m n"]:
        n = self.mu.tokens.n
        return self._average(queries, jnp.eye(n, dtype=self.directions.dtype))

    def shares_of(self, costs: Float[Array, " l"]) -> Float[Array, " l"]:
        r"""$\sigma_l \propto e^{-\tau D_l/\epsilon}$; `shares` if `tau` is `None`."""
        if self.tau is None:
            return self.shares
        return jax.nn.softmax(-self.tau / self.score.epsilon * costs)

    @abc.abstractmethod
    def costs(self) -> Float[Array, " l"]:
        r"""The costs $D_l$, up to a constant that all slices share."""

    @abc.abstractmethod
    def _average(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        """The mean over all slices of the values `y` that are matched with `tokens`."""


class HardMean(AbstractSlicedMean):
    """The mean of the keys that are matched with a token by ranks."""

    @override
    @compile_once
    def costs(self) -> Float[Array, " l"]:
        r"""$D_l - D_1 = -2\int Qx\cdot Ky\,d(\gamma_l - \gamma_1)$ for each slice $l$.

        The first slice is subtracted before summation. This avoids the cancellation of
        large terms if all slices match the same distant groups.
        """
        shares = self.queries.probabilities
        queries = _centred_images(self.queries, self.score.Q)
        keys = _centred_images(self.mu, self.score.K)
        first = self._slice_mean(self.directions[0], keys)

        def cost(direction: Array) -> Array:
            difference = self._slice_mean(direction, keys) - first
            return -2 * shares @ jnp.sum(queries * difference, axis=1)

        return jax.lax.map(cost, self.directions)

    @override
    @compile_once
    def _average(self, tokens: Tokens, y: Float[Array, "n p"]) -> Float[Array, "m p"]:
        n_max = max(tokens.n, self.queries.tokens.n, self.mu.tokens.n)

        def mean(sides: tuple[Side, Side, Array], shares: Array) -> Array:
            return jnp.tensordot(shares, slice_partner_means(*sides, y), 1)

        def sort_block(directions: Array, shares: Array) -> Array:
            sides = self._project(directions, tokens)
            return sum_in_blocks(
                mean, sides, shares, GATHER_SIZE // (n_max * y.shape[1])
            )

        # Several short sorts are done in one call, since each call has an overhead.
        return sum_in_blocks(
            sort_block, self.directions, self.shares, SORT_SIZE // n_max
        )

    def _project(
        self, directions: Float[Array, "s k"], tokens: Tokens
    ) -> tuple[Side, Side, Float[Array, "s m"]]:
        """Sorted queries, sorted keys and projected tokens, along some slices."""
        to_query, to_key = directions @ self.score.Q, directions @ self.score.K
        queries, keys = _sides(self.queries, to_query), _sides(self.mu, to_key)
        return queries, keys, project_slices(tokens.x, to_query)

    def _slice_mean(
        self, direction: Float[Array, " k"], y: Float[Array, "n p"]
    ) -> Float[Array, "m p"]:
        """The mean of the values `y` matched with each query, along one slice."""
        sides = self._project(direction[None], self.queries.safe_tokens)
        return slice_partner_means(*sides, y)[0]


def sum_in_blocks(
    partial_sum: Callable[[Slices, Float[Array, " s"]], Float[Array, "m p"]],
    slices: Slices,
    shares: Float[Array, " l"],
    size: int,
) -> Float[Array, "m p"]:
    """The weighted sum over all slices, computed block by block.

    Args:
        partial_sum: function that returns the weighted sum over some slices.
        slices: the slices, stacked along the first axis of each array.
        shares: weights of the slices.
        size: number of slices in a block (at least one is used); memory is proportional
            to it.
    """
    count = shares.shape[0]
    size = min(count, max(size, 1))
    if size == count:
        return partial_sum(slices, shares)
    n_padding = -count % size  # the last block is padded with weight zero
    ends = lambda leaf: [(0, n_padding)] + [(0, 0)] * (leaf.ndim - 1)
    block = lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:])
    copies = lambda leaf: block(jnp.pad(leaf, ends(leaf), mode="edge"))
    blocks = jax.tree.map(copies, slices), block(jnp.pad(shares, (0, n_padding)))
    result = jax.eval_shape(
        lambda blocks: partial_sum(*jax.tree.map(_first, blocks)), blocks
    )
    add = lambda sums, part: (sums + partial_sum(*part), None)
    return jax.lax.scan(add, jnp.zeros(result.shape, result.dtype), blocks)[0]


def _first(stack: Array) -> Array:
    return stack[0]


def _sides(mu: Points, directions: Float[Array, "s d"]) -> Side:
    return sort_sides(project_slices(mu.safe_tokens.x, directions), mu.probabilities)


def _centred_images(mu: Points, matrix: Float[Array, "k d"]) -> Float[Array, "n k"]:
    x = mu.safe_tokens.x - mu.mean[None, :]
    return jnp.matmul(x, matrix.T, precision=HIGHEST)


def equal_shares(directions: Float[Array, "l k"]) -> Float[Array, " l"]:
    """Weights of the slices, which are equal and sum to one."""
    count = directions.shape[0]
    return jnp.full(count, 1 / count, directions.dtype)


def reweight(field: AbstractSlicedMean) -> AbstractSlicedMean:
    r"""`field` with shares $\propto e^{-\tau D_l/\epsilon}$, unless `tau` is `None`."""
    if field.tau is None:
        return field
    return dataclasses.replace(field, shares=field.shares_of(field.costs()))
