r"""Reductions by interpolation in cells, with a bound on the error."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.measures.reductions.exact import (
    AbstractPlannedReduction,
    Keys,
    Link,
    exponential,
)
from meanfield.scores import (
    AbstractQuadraticScore,
    AbstractScore,
    Masked,
    causal,
    positions,
)
from meanfield.tokens import Tokens

from ._frame import Side
from ._layout import AbstractLayout
from ._sums import Positions, Sides, sums_with_checks

Sums = tuple[Float[Array, "m p"], Float[Array, " m"]]


class Cells(AbstractPlannedReduction):
    r"""Sums by interpolation in cells of queries and of keys, with an error bound.

    The weights $e^{s_{ij}}$ have a relative error of at most $b$, the `bound` of the
    layout. In a `Layout` this holds for each weight; in a `GaussLayout` it holds in
    $L^1$ over all weights of a query. A mean over keys then has an error of at most
    $b/(1-b)$ times half the diameter of the values, and the logarithm of a sum has an
    error of at most $-\log(1-b)$. If the bound does not hold, because scores vary too
    much or sums underflow, sums are exact.

    Attributes:
        tolerance: largest error of a velocity, relative to the largest velocity, for
            which a flow plans cells; see `meanfield.flows.plan_sums`.
        layout: the cells; see `cheapest_layout`. `None` before planning.
        fallback: reduction for sums that cells do not evaluate. These are all sums
            before planning, and sums in single precision, in a dimension other than the
            layout's, with a score that is not quadratic, with a mask that is not
            causal, or with a link that is not `exponential`.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions, sums
        >>> meanfield.set_precision("double")
        >>> x = jax.random.normal(jax.random.key(0), (20_000, 1))
        >>> softmax = attentions["softmax"]([[1.0]], [[1.0]], [[1.0]])
        >>> def velocities(reduction):
        ...     mu = Points.uniform(x, reduction=reduction)
        ...     return softmax.field(0.0, mu)(mu.tokens)
        >>> cells = sums.plan(x, x)
        >>> gap = velocities(cells) - velocities(meanfield.Blocked())
        >>> type(cells).__name__, bool(jnp.max(jnp.abs(gap)) < 1e-6)
        ('Cells', True)
    """

    layout: AbstractLayout | None = eqx.field(static=True, default=None)

    @property
    @override
    def is_planned(self) -> bool:
        return self.layout is not None

    @property
    @override
    def unplanned_copy(self) -> "Cells":
        return Cells(self.tolerance, self.fallback)

    @property
    def unchecked_copy(self) -> "Cells":
        """The reduction for iterations with a checked final result; here, `self`."""
        return self

    @property
    def fallback_copy(self) -> "Cells":
        """The reduction with exact sums where the bound does not hold; here, `self`."""
        return self

    def holds(self, score: AbstractScore, queries: Tokens, keys: Keys) -> bool:
        """Whether the score and dtype allow a sum in cells."""
        dtype = jnp.result_type(queries.x, keys.tokens.x)
        return split_mask(score)[0] is not None and dtype == jnp.float64

    @override
    @compile_once
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        exact = lambda: self.fallback.log_mean(score, queries, keys)
        if self.layout is None or not self.holds(score, queries, keys):
            return exact()
        quadratic, is_masked = split_mask(score)
        assert quadratic is not None
        parts = quadratic.factors(queries, keys.tokens)
        if parts.query.shape[1] != len(self.layout.cells):
            return exact()
        logs = keys.log_weights + parts.key_term
        token_positions = _token_positions(queries, keys.tokens) if is_masked else None
        sides = parts.query, parts.key
        result = cell_log_mean(self.layout, *sides, logs, keys.values, token_positions)
        means, logs, is_bounded = result
        return self.enforce_bound((means, logs + parts.query_term), is_bounded, exact)

    def enforce_bound(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        """The sums in cells if they are within the bound, and exact sums otherwise."""
        return jax.lax.cond(is_bounded, lambda: sums, exact)

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is not exponential or not self.holds(score, queries, keys):
            return self.fallback.integral(link, score, queries, keys)
        means, logs = self.log_mean(score, queries, keys)
        return jnp.exp(logs)[:, None] * means


class CheckedCells(Cells):
    """Cells whose sums are NaN where the bound does not hold.

    Flows use them to make a new plan instead of evaluating slow exact sums.

    Examples:
        >>> import meanfield
        >>> from meanfield import sums
        >>> from meanfield.measures import CheckedCells, Layout
        >>> meanfield.set_precision("double")
        >>> far = jnp.array([[-9.0], [9.0]])
        >>> how = CheckedCells(layout=Layout(nodes=8, cells=(2,), reach=1.0))
        >>> print(sums.log_sum_exp(far, far, reduction=how))
        [nan nan]
    """

    @property
    @override
    def unchecked_copy(self) -> Cells:
        return UncheckedCells(self.tolerance, self.fallback, self.layout)

    @property
    @override
    def fallback_copy(self) -> Cells:
        return Cells(self.tolerance, self.fallback, self.layout)

    @override
    def enforce_bound(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        return jax.tree.map(lambda part: jnp.where(is_bounded, part, jnp.nan), sums)


class UncheckedCells(Cells):
    """Cells whose sums are not checked against the bound.

    They are for iterations whose final result is checked.

    Examples:
        >>> import meanfield
        >>> from meanfield import sums
        >>> from meanfield.measures import Layout, UncheckedCells
        >>> meanfield.set_precision("double")
        >>> far = jnp.array([[-9.0], [9.0]])
        >>> how = UncheckedCells(layout=Layout(nodes=20, cells=(9,), reach=1.0))
        >>> print(sums.log_sum_exp(far, far, reduction=how))
        [81. 81.]
    """

    @override
    def enforce_bound(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        return sums


def use_unchecked_cells(tree: PyTree) -> PyTree:
    """A measure or other tree with `CheckedCells` replaced by `UncheckedCells`.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import CheckedCells, use_unchecked_cells
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=CheckedCells())
        >>> type(use_unchecked_cells(mu).reduction).__name__
        'UncheckedCells'
    """
    return _map_cells(tree, lambda cells: cells.unchecked_copy)


def use_fallback(tree: PyTree) -> PyTree:
    """A measure or other tree with `CheckedCells` replaced by `Cells`.

    Sums for which the bound does not hold are then exact.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import CheckedCells, use_fallback
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=CheckedCells())
        >>> type(use_fallback(mu).reduction).__name__
        'Cells'
    """
    return _map_cells(tree, lambda cells: cells.fallback_copy)


def _map_cells(tree: PyTree, change: Callable[[Cells], Cells]) -> PyTree:
    is_cells = lambda leaf: isinstance(leaf, Cells)
    return jax.tree.map(
        lambda leaf: change(leaf) if is_cells(leaf) else leaf, tree, is_leaf=is_cells
    )


def cell_log_mean(
    layout: AbstractLayout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
    values: Float[Array, "n p"],
    token_positions: Positions | None = None,
) -> tuple[Float[Array, "m p"], Float[Array, " m"], Bool[Array, ""]]:
    """Means over keys, logarithms of sums, and whether both are within the bound."""
    is_excluded = jnp.isneginf(logs)
    q, k, weights, top = weigh_sides(layout, queries, keys, logs)
    query_tops, _ = layout.tops(q, k)
    rows = jnp.concatenate([values, jnp.ones_like(logs)[:, None]], axis=1)
    rows = jnp.where(is_excluded[:, None], 0, rows) * weights[:, None]
    sums, checks = sums_with_checks(
        layout, Sides(q.x, k.x, (q.half, k.half), token_positions), rows
    )
    mass, is_empty = (
        sums[:, -1],
        _is_empty(token_positions, is_excluded)
        if token_positions is not None
        else False,
    )
    checks = jnp.concatenate(
        [jnp.where(is_empty, jnp.inf, mass)[:, None], checks], axis=1
    )
    is_bounded = layout.holds(q, k, *jax.lax.stop_gradient((rows[:, -1], checks)))
    mass = jnp.where(mass > 0, mass, 1)
    offset = q.x @ k.middle + q.middle @ k.middle + top
    total = jnp.where(is_empty, -jnp.inf, jnp.log(mass) + query_tops + offset)
    return sums[:, :-1] / mass[:, None], total, is_bounded


def weigh_sides(
    layout: AbstractLayout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
) -> tuple[Side, Side, Float[Array, " n"], Float[Array, ""]]:
    """Queries and keys along the axes, weights divided by `exp(top)`, and `top`."""
    q, k = layout.sides(queries, replace_excluded(keys, logs), logs)
    logs = logs + k.x @ q.middle + layout.tops(q, k)[1]
    top = jnp.max(jax.lax.stop_gradient(logs))
    top = jnp.where(jnp.isneginf(top), 0, top)
    return q, k, jnp.exp(logs - top), top


def _token_positions(queries: Tokens, keys: Tokens) -> Positions:
    """Positions hidden from XLA, which would sort constants at compile time."""
    pair = positions(queries), positions(keys)
    return Positions(*jax.lax.optimization_barrier(pair))


def _is_empty(
    token_positions: Positions, is_excluded: Bool[Array, " n"]
) -> Bool[Array, " m"]:
    """Whether all keys that a query sees are excluded; its sum is then exactly 0."""
    return token_positions.queries < jnp.min(
        jnp.where(is_excluded, jnp.inf, token_positions.keys)
    )


def split_mask(score: AbstractScore) -> tuple[AbstractQuadraticScore | None, bool]:
    """The unmasked score (`None` unless quadratic), and whether its mask was causal."""
    is_masked = isinstance(score, Masked) and score.mask is causal
    base = score.score if isinstance(score, Masked) and is_masked else score
    return (base if isinstance(base, AbstractQuadraticScore) else None), is_masked


def replace_excluded(keys: Float[Array, "n k"], logs: Float[Array, " n"]) -> Array:
    """Keys, with excluded ones moved to another key, so as not to widen the box."""
    is_excluded = jnp.isneginf(logs)
    return jnp.where(is_excluded[:, None], keys[jnp.argmax(logs)][None], keys)
