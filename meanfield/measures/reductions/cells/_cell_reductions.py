r"""Sums over keys by interpolation in cells, with a bound on what that misses."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree
from typing_extensions import override

from meanfield._programs import compile_once
from meanfield.measures.reductions.exact import (
    AbstractPlanned,
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
from ._sums import Positions, Sides, checked_sums

Sums = tuple[Float[Array, "m p"], Float[Array, " m"]]


class Cells(AbstractPlanned):
    r"""Interpolation in cells of queries and of keys, within a bound; else exact.

    Each kernel $e^{s_{ij}}$ is within the layout's `bound` of its own, relative to it,
    for all pairs: a mean over keys is then within $b/(1-b)$ times half the diameter of
    the values, and the logarithm of a sum within $-\log(1-b)$. Where scores vary by
    more than the cells reach, and where sums would be lost to underflow, they are taken
    exactly.

    Attributes:
        tolerance: the largest error of a velocity, relative to the largest velocity,
            that a flow plans cells for; see `meanfield.flows.planned`.
        layout: the cells; see `cheapest`. `None` until planned, which is `otherwise`.
        otherwise: how all is summed that cells do not hold: scores that are not
            quadratic, masks but the causal one, links but the exponential, single
            precision, other dimensions than the layout's.

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
    def unplanned(self) -> "Cells":
        return Cells(self.tolerance, self.otherwise)

    @property
    def unchecked(self) -> "Cells":
        """What an iteration sums with whose end is checked; exact beyond the bound."""
        return self

    @property
    def unfenced(self) -> "Cells":
        """Cells beyond whose bound sums are exact."""
        return self

    def holds(self, score: AbstractScore, queries: Tokens, keys: Keys) -> bool:
        """Whether exponentials of a score are summed in cells, as far as shapes say."""
        dtype = jnp.result_type(queries.x, keys.tokens.x)
        return seen(score)[0] is not None and dtype == jnp.float64

    @override
    @compile_once
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        exact = lambda: self.otherwise.log_mean(score, queries, keys)
        if self.layout is None or not self.holds(score, queries, keys):
            return exact()
        quadratic, is_masked = seen(score)
        assert quadratic is not None
        parts = quadratic.factors(queries, keys.tokens)
        if parts.query.shape[1] != len(self.layout.cells):
            return exact()
        logs = keys.log_weights + parts.of_key
        at = _ordered(queries, keys.tokens) if is_masked else None
        sides = parts.query, parts.key
        found = between_cells(self.layout, *sides, logs, keys.values, at)
        means, logs, is_bounded = found
        return self.settled((means, logs + parts.of_query), is_bounded, exact)

    def settled(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        """Sums in cells where these are within the bound, and exact ones elsewhere."""
        return jax.lax.cond(is_bounded, lambda: sums, exact)

    @override
    @compile_once
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is not exponential or not self.holds(score, queries, keys):
            return self.otherwise.integral(link, score, queries, keys)
        means, logs = self.log_mean(score, queries, keys)
        return jnp.exp(logs)[:, None] * means


class Fenced(Cells):
    """Cells whose sums are no numbers where they are beyond the bound.

    For those who then plan anew, as flows do, and do not want a slow sum instead.

    Examples:
        >>> import meanfield
        >>> from meanfield import sums
        >>> from meanfield.measures import Fenced, Layout
        >>> meanfield.set_precision("double")
        >>> far = jnp.array([[-9.0], [9.0]])
        >>> how = Fenced(layout=Layout(nodes=8, cells=(2,), reach=1.0))
        >>> print(sums.log_sum_exp(far, far, reduction=how))
        [nan nan]
    """

    @property
    @override
    def unchecked(self) -> Cells:
        return Unchecked(self.tolerance, self.otherwise, self.layout)

    @property
    @override
    def unfenced(self) -> Cells:
        return Cells(self.tolerance, self.otherwise, self.layout)

    @override
    def settled(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        return jax.tree.map(lambda part: jnp.where(is_bounded, part, jnp.nan), sums)


class Unchecked(Cells):
    """Cells whose sums are as they come, within the bound or not: on the way.

    For iterations whose end is checked.

    Examples:
        >>> import meanfield
        >>> from meanfield import sums
        >>> from meanfield.measures import Layout, Unchecked
        >>> meanfield.set_precision("double")
        >>> far = jnp.array([[-9.0], [9.0]])
        >>> how = Unchecked(layout=Layout(nodes=20, cells=(9,), reach=1.0))
        >>> print(sums.log_sum_exp(far, far, reduction=how))
        [81. 81.]
    """

    @override
    def settled(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        return sums


def unchecked(tree: PyTree) -> PyTree:
    """A tree, a measure for one, whose sums in fenced cells are as they come.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Fenced, unchecked
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Fenced())
        >>> type(unchecked(mu).reduction).__name__
        'Unchecked'
    """
    return _with_cells(tree, lambda how: how.unchecked)


def unfenced(tree: PyTree) -> PyTree:
    """A tree, a measure for one, whose sums are exact beyond the bound of its cells.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Fenced, unfenced
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Fenced())
        >>> type(unfenced(mu).reduction).__name__
        'Cells'
    """
    return _with_cells(tree, lambda how: how.unfenced)


def _with_cells(tree: PyTree, change: Callable[[Cells], Cells]) -> PyTree:
    is_cells = lambda leaf: isinstance(leaf, Cells)
    return jax.tree.map(
        lambda leaf: change(leaf) if is_cells(leaf) else leaf, tree, is_leaf=is_cells
    )


def between_cells(
    layout: AbstractLayout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
    values: Float[Array, "n p"],
    at: Positions | None = None,
) -> tuple[Float[Array, "m p"], Float[Array, " m"], Bool[Array, ""]]:
    """Means over keys, logarithms of sums, and whether both are within the bound."""
    out = jnp.isneginf(logs)
    q, k, weights, top = weighed(layout, queries, keys, logs)
    of_queries, _ = layout.tops(q, k)
    rows = jnp.concatenate([values, jnp.ones_like(logs)[:, None]], axis=1)
    rows = jnp.where(out[:, None], 0, rows) * weights[:, None]
    sums, checks = checked_sums(layout, Sides(q.x, k.x, (q.half, k.half), at), rows)
    mass, blind = sums[:, -1], _blind(at, out) if at is not None else False
    checks = jnp.concatenate([jnp.where(blind, jnp.inf, mass)[:, None], checks], axis=1)
    is_bounded = layout.holds(q, k, *jax.lax.stop_gradient((rows[:, -1], checks)))
    mass = jnp.where(mass > 0, mass, 1)
    offset = q.x @ k.middle + q.middle @ k.middle + top
    total = jnp.where(blind, -jnp.inf, jnp.log(mass) + of_queries + offset)
    return sums[:, :-1] / mass[:, None], total, is_bounded


def weighed(
    layout: AbstractLayout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
) -> tuple[Side, Side, Float[Array, " n"], Float[Array, ""]]:
    """Both sides in cells, and the weights of keys over the exponential of a number."""
    q, k = layout.sides(queries, counted(keys, logs), logs)
    logs = logs + k.x @ q.middle + layout.tops(q, k)[1]
    top = jnp.max(jax.lax.stop_gradient(logs))
    top = jnp.where(jnp.isneginf(top), 0, top)
    return q, k, jnp.exp(logs - top), top


def _ordered(queries: Tokens, keys: Tokens) -> Positions:
    """Positions, behind a barrier: XLA would sort known ones itself, for minutes."""
    known = positions(queries), positions(keys)
    return Positions(*jax.lax.optimization_barrier(known))


def _blind(at: Positions, out: Bool[Array, " n"]) -> Bool[Array, " m"]:
    """The queries that see no key which counts: nothing is missed of their sums."""
    return at.queries < jnp.min(jnp.where(out, jnp.inf, at.keys))


def seen(score: AbstractScore) -> tuple[AbstractQuadraticScore | None, bool]:
    """The score whose exponentials are summed, if it is one; and whether masked."""
    is_masked = isinstance(score, Masked) and score.mask is causal
    base = score.score if isinstance(score, Masked) and is_masked else score
    return (base if isinstance(base, AbstractQuadraticScore) else None), is_masked


def counted(keys: Float[Array, "n k"], logs: Float[Array, " n"]) -> Array:
    """Keys of which those that are excluded lie where another does: they widen none."""
    out = jnp.isneginf(logs)
    return jnp.where(out[:, None], keys[jnp.argmax(logs)][None], keys)
