r"""Sums over keys by interpolation in cells, with a bound on what that misses."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.measures.reductions._reduction import (
    AbstractReduction,
    Blocked,
    Keys,
    Link,
)
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._frame import framed
from ._layout import Layout
from ._sums import Sides, kernel_sums, tops


class Cells(AbstractReduction):
    r"""Interpolation in cells of queries and of keys, within a bound; else exact.

    Each kernel $e^{s_{ij}}$ is within the layout's `bound` of its own, relative to it,
    for all pairs: a mean over keys is then within $2b/(1-b)$ times half the diameter of
    the values, and the logarithm of a sum within $-\log(1-b)$. Where scores vary by
    more than the cells reach, and where sums would be lost to underflow, they are taken
    block by block.

    Attributes:
        layout: the cells; see `cheapest`.
        otherwise: how all is summed that cells do not hold: scores that are not
            quadratic, masks, links, single precision, other dimensions than the
            layout's.

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

    layout: Layout = eqx.field(static=True)
    otherwise: Blocked = Blocked()

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        exact = lambda: self.otherwise.log_mean(score, queries, keys)
        if not isinstance(score, AbstractQuadraticScore):
            return exact()
        parts = score.factors(queries, keys.tokens)
        is_double = jnp.result_type(parts.query, parts.key) == jnp.float64
        if not is_double or parts.query.shape[1] != len(self.layout.cells):
            return exact()
        logs = keys.log_weights + parts.of_key
        found = between_cells(self.layout, parts.query, parts.key, logs, keys.values)
        means, logs, is_bounded = found
        return jax.lax.cond(is_bounded, lambda: (means, logs + parts.of_query), exact)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.otherwise.integral(link, score, queries, keys)


def between_cells(
    layout: Layout,
    queries: Float[Array, "m k"],
    keys: Float[Array, "n k"],
    logs: Float[Array, " n"],
    values: Float[Array, "n p"],
) -> tuple[Float[Array, "m p"], Float[Array, " m"], Bool[Array, ""]]:
    """Means over keys, logarithms of sums, and whether both are within the bound."""
    # What is excluded must not widen the box.
    out = jnp.isneginf(logs)
    keys = jnp.where(out[:, None], keys[jnp.argmax(logs)][None], keys)
    q, k = framed(queries, keys)
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


def _reaches(layout: Layout, spans: Float[Array, " k"]) -> Bool[Array, ""]:
    """Whether scores vary by no more, in a cell, than the layout holds."""
    return jnp.all(spans <= layout.reach * jnp.asarray(layout.cells))


def _is_full(layout: Layout, mass: Float[Array, " m"], count: int) -> Bool[Array, ""]:
    """Whether no sum is so small that terms which are lost to underflow matter."""
    info = jnp.finfo(mass.dtype)
    lost = count * math.prod(layout.counts) * float(info.tiny)
    return jnp.all(mass > lost / float(info.eps))
