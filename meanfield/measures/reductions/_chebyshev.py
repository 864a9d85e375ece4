r"""Sums over keys by Chebyshev interpolation in the query, for low dimensions.

With scores $q\cdot k_j + c_j$ the mean $M(q) = \sum_j e^{q\cdot k_j + c_j} v_j / Z(q)$
and $\log Z$ are analytic in $q$. They are computed exactly at the nodes of a tensor
grid around all queries, and interpolated. Exponentials of inner products factorise over
axes, so that sums at $p_1 \cdots p_k$ nodes are matrix products of
$n(p_1 + \dots + p_k)$ exponentials: $O(n + m)$ instead of $O(nm)$. All terms are
positive, so nothing cancels.
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

from ._causal import PositionedKeys, PositionedQueries, causal_log_mean
from ._nodes import Box, ProjectedKeys, chebyshev_log_mean
from .exact import AbstractPlannedReduction, Keys, Link


class Chebyshev(AbstractPlannedReduction):
    """Chebyshev interpolation between `counts` nodes along each axis.

    The nodes lie in a box that contains all queries of the call. Its axes are the
    principal axes of the queries, the widest first. The class does not estimate the
    interpolation error: `meanfield.flows.plan_sums` chooses `counts` for the tolerance.

    Attributes:
        tolerance: largest error of a velocity, relative to the largest velocity.
        counts: number of nodes along each axis; `None` before planning, when the
            fallback is used.
        fallback: reduction for sums that are not interpolated. These are all sums
            before planning, sums with a link, a score that is not quadratic or a mask
            that is not causal, and sums with fewer queries than nodes.

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
    def unplanned_copy(self) -> "Chebyshev":
        return Chebyshev(self.tolerance, self.fallback)

    @property
    def coarser_copy(self) -> "Chebyshev":
        """A copy with an eighth fewer nodes per axis, to estimate the error."""
        counts = tuple(count - max(count // 8, 1) for count in self.counts or ())
        return Chebyshev(self.tolerance, self.fallback, counts or None)

    def interpolated_score(
        self, score: AbstractScore, queries: Tokens
    ) -> AbstractQuadraticScore | None:
        """The unmasked score of an interpolated sum; `None` if the fallback is used."""
        if isinstance(score, Masked) and score.mask is causal:
            score = score.score
        enough = self.counts and queries.n >= math.prod(self.counts)
        return score if enough and isinstance(score, AbstractQuadraticScore) else None

    @override
    @compile_once
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        quadratic = self.interpolated_score(score, queries)
        if quadratic is None:
            return self.fallback.log_mean(score, queries, keys)
        parts = quadratic.factors(queries, keys.tokens)
        counts = (self.counts or ())[: parts.query.shape[1]]
        box = Box.from_vectors(parts.query, len(counts))
        logs = keys.log_weights + parts.key_term + parts.key @ box.orthogonal_mean
        heaviest = jnp.argmax(logs)
        top = _finite(jax.lax.stop_gradient(logs[heaviest]))
        # Excluded keys are moved onto another key, so that exponents keep their range.
        is_excluded = jnp.isneginf(logs)
        k = jnp.where(is_excluded[:, None], parts.key[heaviest][None], parts.key)
        q = jnp.matmul(parts.query, box.axes, precision=HIGHEST)
        projected_keys = ProjectedKeys(k @ box.axes, logs - top, keys.values)
        if isinstance(score, Masked):
            key_places = PositionedKeys(projected_keys, positions(keys.tokens))
            query_places = PositionedQueries(q, positions(queries))
            means, logs = causal_log_mean(box, counts, query_places, key_places)
        else:
            means, logs = chebyshev_log_mean(box, counts, q, projected_keys)
        return means.T, logs + top + parts.query_term

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.fallback.integral(link, score, queries, keys)


class InterpolationSignal(Exception):
    """Signals that a sum of `InterpolationDetector` would be interpolated.

    Examples:
        >>> from meanfield.measures import InterpolationSignal
        >>> issubclass(InterpolationSignal, Exception)
        True
    """


class InterpolationDetector(Chebyshev):
    """A reduction that raises `InterpolationSignal` in place of interpolating.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.measures import InterpolationDetector, InterpolationSignal
        >>> x = jax.random.normal(jax.random.key(0), (500, 1))
        >>> mu = Points.uniform(x, reduction=InterpolationDetector(counts=(24,)))
        >>> softmax = attentions["softmax"](jnp.eye(1), jnp.eye(1), jnp.eye(1))
        >>> try:
        ...     softmax.field(0.0, mu)(mu.tokens)
        ... except InterpolationSignal:
        ...     print("interpolated")
        interpolated
    """

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        if self.interpolated_score(score, queries) is not None:
            raise InterpolationSignal
        return super().log_mean(score, queries, keys)


def coarsen(tree: PyTree) -> PyTree:
    """Copies a measure, field or other tree, with fewer nodes in interpolated sums.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Chebyshev, coarsen
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Chebyshev(counts=(24,)))
        >>> coarsen(mu).reduction.counts
        (21,)
    """
    replace = lambda leaf: leaf.coarser_copy if isinstance(leaf, Chebyshev) else leaf
    return jax.tree.map(replace, tree, is_leaf=lambda leaf: isinstance(leaf, Chebyshev))


def _finite(top: Array) -> Array:
    return jnp.where(jnp.isneginf(top), 0, top)
