r"""Sums over keys by interpolation between Chebyshev nodes, for few dimensions.

With scores $q\cdot k_j + c_j$ the mean $M(q) = \sum_j e^{q\cdot k_j + c_j} v_j / Z(q)$
and $\log Z$ are analytic in $q$. They are summed exactly at the nodes of a tensor grid
around all queries and interpolated. Exponentials of inner products separate over axes,
so that sums at $p_1 \cdots p_k$ nodes are matrix products of $n(p_1 + \dots + p_k)$
exponentials: $O(n + m)$ instead of $O(nm)$. All terms are positive: nothing cancels.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.linalg import HIGHEST
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Masked,
    causal,
    positions,
)
from meanfield.tokens import Tokens

from ._causal import Placed, PlacedKeys, causal_log_mean
from ._nodes import Box, Keyed, log_mean_between
from .exact import AbstractPlanned, Keys, Link


class Chebyshev(AbstractPlanned):
    """Interpolation between so many nodes along each axis; else block by block.

    The axes are the principal ones of the queries, the widest first, and the box holds
    all queries of the call. Nothing here knows how good the interpolation is: see
    `meanfield.flows.planned`, which chooses `counts` and holds them to a tolerance.

    Attributes:
        tolerance: the largest error of a velocity, relative to the largest velocity.
        counts: nodes along each axis; `None` until planned, which is block by block.
        otherwise: how scores that are not quadratic, links, and other dimensions than
            there are counts, are summed.

    Examples:
        >>> from meanfield import Dense, Points, attentions
        >>> from meanfield.measures import Chebyshev
        >>> x = jax.random.normal(jax.random.key(0), (500, 1))
        >>> softmax = attentions["softmax"](jnp.eye(1), jnp.eye(1), jnp.eye(1))
        >>> of = lambda how: softmax.field(0.0, Points.uniform(x, reduction=how))
        >>> tokens = Points.uniform(x).tokens
        >>> gap = of(Chebyshev(counts=(24,)))(tokens) - of(Dense())(tokens)
        >>> bool(jnp.max(jnp.abs(gap)) < 1e-9)
        False
    """

    counts: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    @override
    def is_planned(self) -> bool:
        return self.counts is not None

    @property
    @override
    def unplanned(self) -> "Chebyshev":
        return Chebyshev(self.tolerance, self.otherwise)

    @property
    def coarser(self) -> "Chebyshev":
        """An eighth fewer nodes along each axis: the change shows what nodes miss."""
        counts = tuple(count - max(count // 8, 1) for count in self.counts or ())
        return Chebyshev(self.tolerance, self.otherwise, counts or None)

    def interpolated(
        self, score: AbstractScore, queries: Tokens
    ) -> AbstractQuadraticScore | None:
        """The score whose exponentials are interpolated; `None` if none are."""
        if isinstance(score, Masked) and score.mask is causal:
            score = score.score
        enough = self.counts and queries.n >= math.prod(self.counts)
        return score if enough and isinstance(score, AbstractQuadraticScore) else None

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        quadratic = self.interpolated(score, queries)
        if quadratic is None:
            return self.otherwise.log_mean(score, queries, keys)
        parts = quadratic.factors(queries, keys.tokens)
        counts = (self.counts or ())[: parts.query.shape[1]]
        box = Box.around(parts.query, len(counts))
        logs = keys.log_weights + parts.of_key + parts.key @ box.beside
        heaviest = jnp.argmax(logs)
        top = _finite(jax.lax.stop_gradient(logs[heaviest]))
        # What is excluded must not widen the range of exponents.
        out = jnp.isneginf(logs)
        k = jnp.where(out[:, None], parts.key[heaviest][None], parts.key)
        q = jnp.matmul(parts.query, box.axes, precision=HIGHEST)
        along = Keyed(k @ box.axes, logs - top, keys.values)
        if isinstance(score, Masked):
            key_places = PlacedKeys(along, positions(keys.tokens))
            query_places = Placed(q, positions(queries))
            means, logs = causal_log_mean(box, counts, query_places, key_places)
        else:
            means, logs = log_mean_between(box, counts, q, along)
        return means.T, logs + top + parts.of_query

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.otherwise.integral(link, score, queries, keys)


class Interpolated(Exception):
    """Says that a sum of `Revealing` is interpolated.

    Examples:
        >>> from meanfield.measures import Interpolated
        >>> issubclass(Interpolated, Exception)
        True
    """


class Revealing(Chebyshev):
    """Sums that tell whether they are interpolated, instead of their value.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.measures import Interpolated, Revealing
        >>> x = jax.random.normal(jax.random.key(0), (500, 1))
        >>> mu = Points.uniform(x, reduction=Revealing(counts=(24,)))
        >>> softmax = attentions["softmax"](jnp.eye(1), jnp.eye(1), jnp.eye(1))
        >>> try:
        ...     softmax.field(0.0, mu)(mu.tokens)
        ... except Interpolated:
        ...     print("between nodes")
        between nodes
    """

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        if self.interpolated(score, queries) is not None:
            raise Interpolated
        return super().log_mean(score, queries, keys)


def coarsely(tree: PyTree) -> PyTree:
    """A tree, a measure or a field, with fewer nodes in its interpolated sums.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Chebyshev, coarsely
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Chebyshev(counts=(24,)))
        >>> coarsely(mu).reduction.counts
        (21,)
    """
    replace = lambda leaf: leaf.coarser if isinstance(leaf, Chebyshev) else leaf
    return jax.tree.map(replace, tree, is_leaf=lambda leaf: isinstance(leaf, Chebyshev))


def _finite(top: Array) -> Array:
    return jnp.where(jnp.isneginf(top), 0, top)
