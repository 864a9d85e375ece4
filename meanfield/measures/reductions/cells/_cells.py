r"""Sums over keys by interpolation in cells, with a bound on what that misses."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.measures.reductions._planned import AbstractPlanned
from meanfield.measures.reductions._reduction import (
    Keys,
    Link,
    exponential,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._frame import Side, framed
from ._layout import Layout
from ._sums import Sides, kernel_sums, tops

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
            quadratic, masks, links but the exponential, single precision, other
            dimensions than the layout's.

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

    layout: Layout | None = eqx.field(static=True, default=None)

    @property
    @override
    def is_planned(self) -> bool:
        return self.layout is not None

    @property
    @override
    def unplanned(self) -> "Cells":
        return Cells(self.tolerance, self.otherwise)

    def holds(self, score: AbstractScore, queries: Tokens, keys: Keys) -> bool:
        """Whether exponentials of a score are summed in cells, as far as shapes say."""
        dtype = jnp.result_type(queries.x, keys.tokens.x)
        return isinstance(score, AbstractQuadraticScore) and dtype == jnp.float64

    @override
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        exact = lambda: self.otherwise.log_mean(score, queries, keys)
        if self.layout is None or not self.holds(score, queries, keys):
            return exact()
        assert isinstance(score, AbstractQuadraticScore)
        parts = score.factors(queries, keys.tokens)
        if parts.query.shape[1] != len(self.layout.cells):
            return exact()
        logs = keys.log_weights + parts.of_key
        found = between_cells(self.layout, parts.query, parts.key, logs, keys.values)
        means, logs, is_bounded = found
        return self.settled((means, logs + parts.of_query), is_bounded, exact)

    def settled(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        """Sums in cells where these are within the bound, and exact ones elsewhere."""
        return jax.lax.cond(is_bounded, lambda: sums, exact)

    @override
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

    @override
    def settled(
        self, sums: Sums, is_bounded: Bool[Array, ""], exact: Callable[[], Sums]
    ) -> Sums:
        return jax.tree.map(lambda part: jnp.where(is_bounded, part, jnp.nan), sums)


def between_cells(
    layout: Layout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
    values: Float[Array, "n p"],
) -> tuple[Float[Array, "m p"], Float[Array, " m"], Bool[Array, ""]]:
    """Means over keys, logarithms of sums, and whether both are within the bound."""
    q, k = counted_sides(queries, keys, logs)
    out = jnp.isneginf(logs)
    logs = logs + k.x @ q.middle
    top = jnp.max(jax.lax.stop_gradient(logs))
    top = jnp.where(jnp.isneginf(top), 0, top)
    weights = jnp.exp(logs - top)
    rows = jnp.concatenate([values, jnp.ones_like(logs)[:, None]], axis=1)
    rows = jnp.where(out[:, None], 0, rows) * weights[:, None]
    sides = Sides(q.x, k.x, (q.half, k.half))
    sums = kernel_sums(layout, sides, rows)
    mass = sums[:, -1]
    is_bounded = _reaches(layout, q.half * k.half) & _is_full(layout, mass, len(logs))
    mass = jnp.where(mass > 0, mass, 1)
    offset = q.x @ k.middle + q.middle @ k.middle + top
    total = jnp.log(mass) + tops(layout, sides) + offset
    return sums[:, :-1] / mass[:, None], total, is_bounded


def counted_sides(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> tuple[Side, Side]:
    """Queries and keys in their frame; keys that are excluded widen no box."""
    out = jnp.isneginf(logs)
    return framed(queries, jnp.where(out[:, None], keys[jnp.argmax(logs)][None], keys))


def _reaches(layout: Layout, spans: Float[Array, " k"]) -> Bool[Array, ""]:
    """Whether scores vary by no more, in a cell, than the layout holds."""
    return jnp.all(spans <= layout.reach * jnp.asarray(layout.cells))


def _is_full(layout: Layout, mass: Float[Array, " m"], count: int) -> Bool[Array, ""]:
    """Whether no sum is so small that terms which are lost to underflow matter."""
    info = jnp.finfo(mass.dtype)
    lost = count * math.prod(layout.counts) * float(info.tiny)
    return jnp.all(mass > lost / float(info.eps))
