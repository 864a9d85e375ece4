"""Surveys of the sums that a field evaluates, to plan cells for them."""

import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield.measures.reductions.exact import (
    AbstractReduction,
    Dense,
    Keys,
    Link,
    exponential,
)
from meanfield.scores import AbstractScore
from meanfield.tokens import Tokens

from ._cell_reductions import Cells, Sums, replace_excluded, split_mask, weigh_sides
from ._choice import Extent, combine_nearness
from ._frame import frame_sides
from ._gauss import GaussLayout, Nearness, cheapest_gauss_layout, nearness
from ._sums import Sides, sums_with_checks


class Findings:
    """The sums that a `Survey` has recorded.

    Attributes:
        held: for each sum, whether cells can evaluate it.
        sides: queries, keys and log-weights of each sum that cells can evaluate. They
            are taken from its last evaluation, because iterations for potentials have
            converged by then.
        is_masked: whether some sum has a causal mask.

    Examples:
        >>> from meanfield.measures.reductions.cells import Findings
        >>> Findings().extents()
        []
    """

    def __init__(self) -> None:
        self.held: list[bool] = []
        self.is_masked = False
        self.sides: dict[int, tuple[np.ndarray, ...]] = {}

    def extents(self) -> list[Extent]:
        """The extents of the sums that cells can evaluate."""
        jax.effects_barrier()
        return [extent(*map(jnp.asarray, sides)) for sides in self.sides.values()]


class Survey(Cells):
    """A reduction that evaluates sums by another one and records them in `findings`.

    Attributes:
        fallback: reduction that evaluates the sums.
        findings: the record; the kinds of sums are added while a program is traced,
            their arrays when the program runs.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions
        >>> from meanfield.measures import Survey
        >>> from meanfield.measures.reductions.cells import Findings
        >>> meanfield.set_precision("double")
        >>> findings, one = Findings(), jnp.eye(1)
        >>> mu = Points.uniform([[-1.0], [1.0]], reduction=Survey(findings=findings))
        >>> velocities = attentions["softmax"](one, one, one).field(0.0, mu)(mu.tokens)
        >>> findings.held, [float(extent.spans[0]) for extent in findings.extents()]
        ([True], [1.0])
    """

    fallback: AbstractReduction = Dense()
    findings: Findings = eqx.field(static=True, default_factory=Findings)

    @override
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        # Sums for a single query, as in `Prefix`, gain nothing from cells.
        is_held = queries.n > 1 and self.holds(score, queries, keys)
        number = len(self.findings.held)
        self.findings.held.append(is_held)
        if is_held:
            quadratic, is_masked = split_mask(score)
            self.findings.is_masked |= is_masked
            assert quadratic is not None
            parts = quadratic.factors(queries, keys.tokens)
            logs = keys.log_weights + parts.key_term
            note = eqx.Partial(self._note, number)
            jax.debug.callback(note, parts.query, parts.key, logs)
        return self.fallback.log_mean(score, queries, keys)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is exponential:
            means, logs = self.log_mean(score, queries, keys)
            return jnp.exp(logs)[:, None] * means
        self.findings.held.append(False)
        return self.fallback.integral(link, score, queries, keys)

    def _note(self, number: int, *sides: Array) -> None:
        self.findings.sides[number] = tuple(map(np.asarray, sides))


def extent(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> Extent:
    """How far scores and tokens spread in a sum over keys with log-weights `logs`."""
    spans, halves, wide_ratio = map(np.asarray, _extent(queries, keys, logs))
    return Extent(spans, Nearness(halves, float(wide_ratio)))


def refined_extents(
    sums: Sequence[tuple[Array, Array, Array]], *, error: float
) -> list[Extent]:
    """The extents of sums, with `wide_ratio` over all queries instead of a sample.

    The ratio is computed by sums in cells that are planned for the sample; if no layout
    fits, the extents are those of the sample.

    Args:
        sums: queries, keys and log-weights of each sum.
        error: largest relative error of the weights in a sum, in $L^1$.
    """
    extents = [extent(*arrays) for arrays in sums]
    tokens = max(len(queries) + len(keys) for queries, keys, _ in sums)
    layout = cheapest_gauss_layout(combine_nearness(extents), tokens, 1, error=error)
    if layout is None:
        return extents
    wide_ratios = [float(_largest_wide_ratio(layout, *arrays)) for arrays in sums]
    return [
        Extent(estimate.spans, Nearness(estimate.nearness.halves, wide_ratio))
        for estimate, wide_ratio in zip(extents, wide_ratios, strict=True)
    ]


@functools.partial(jax.jit, static_argnums=0)
def _largest_wide_ratio(
    layout: GaussLayout, queries: Array, keys: Array, logs: Array
) -> Float[Array, ""]:
    """The largest ratio of a sum with the wider kernel to the sum itself."""
    q, k, weights, _ = weigh_sides(layout, queries, keys, logs)
    sides = Sides(q.x, k.x, (q.half, k.half))
    sums, wide = sums_with_checks(layout, sides, weights[:, None])
    return jnp.max(jnp.where(sums > 0, wide / sums, jnp.inf))


@jax.jit
def _extent(queries: Array, keys: Array, logs: Array) -> tuple[Array, Array, Array]:
    keys = replace_excluded(keys, logs)
    q, k = frame_sides(queries, keys)
    return q.half * k.half, *nearness(queries, keys, logs)
