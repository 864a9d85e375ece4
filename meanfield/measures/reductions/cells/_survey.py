"""What the sums of a field would take in cells, found out on some of its tokens."""

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

from ._cell_reductions import Cells, Sums, counted, seen, weighed
from ._choice import Extent, roomy
from ._frame import framed
from ._gauss import GaussLayout, Nearness, cheapest_gauss, nearness
from ._sums import Sides, checked_sums


class Findings:
    """What a survey came upon.

    Attributes:
        held: for each sum, whether cells hold it.
        sides: queries, keys and logarithms of the weights of each that they hold, as it
            was taken last: potentials are then found.
        is_masked: whether some sum is over earlier keys alone.

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
        """How far each reaches."""
        jax.effects_barrier()
        return [extent(*map(jnp.asarray, sides)) for sides in self.sides.values()]


class Survey(Cells):
    """Exact sums, and notes of what was summed.

    Attributes:
        findings: where notes are kept: of shapes when a program is made, of numbers
            when it runs.

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

    otherwise: AbstractReduction = Dense()
    findings: Findings = eqx.field(static=True, default_factory=Findings)

    @override
    def log_mean(self, score: AbstractScore, queries: Tokens, keys: Keys) -> Sums:
        # Sums of one query at a time, as behind a general mask, are no sums of many.
        is_held = queries.n > 1 and self.holds(score, queries, keys)
        number = len(self.findings.held)
        self.findings.held.append(is_held)
        if is_held:
            quadratic, is_masked = seen(score)
            self.findings.is_masked |= is_masked
            assert quadratic is not None
            parts = quadratic.factors(queries, keys.tokens)
            logs = keys.log_weights + parts.of_key
            note = eqx.Partial(self._note, number)
            jax.debug.callback(note, parts.query, parts.key, logs)
        return self.otherwise.log_mean(score, queries, keys)

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        if link is exponential:
            means, logs = self.log_mean(score, queries, keys)
            return jnp.exp(logs)[:, None] * means
        self.findings.held.append(False)
        return self.otherwise.integral(link, score, queries, keys)

    def _note(self, number: int, *sides: Array) -> None:
        self.findings.sides[number] = tuple(map(np.asarray, sides))


def extent(
    queries: Float[Array, "m k"], keys: Float[Array, "n k"], logs: Float[Array, " n"]
) -> Extent:
    """How far a sum reaches, of keys with logarithms of their weights."""
    spans, halves, loneliness = map(np.asarray, _extent(queries, keys, logs))
    return Extent(spans, Nearness(halves, float(loneliness)))


def of_all(sums: Sequence[tuple[Array, Array, Array]], *, error: float) -> list[Extent]:
    """How far sums reach, with the loneliness of all of their queries, not of some.

    By sums in cells that are within `error` for some; where none are, it is of these.

    Args:
        sums: queries, keys and the logarithms of their weights, of each.
        error: how far weights may be off in a sum, over the sum.
    """
    found = [extent(*arrays) for arrays in sums]
    tokens = max(len(queries) + len(keys) for queries, keys, _ in sums)
    layout = cheapest_gauss(roomy(found), tokens, 1, error=error)
    if layout is None:
        return found
    alone = [float(_loneliest(layout, *arrays)) for arrays in sums]
    return [
        Extent(some.spans, Nearness(some.nearness.halves, most))
        for some, most in zip(found, alone, strict=True)
    ]


@functools.partial(jax.jit, static_argnums=0)
def _loneliest(
    layout: GaussLayout, queries: Array, keys: Array, logs: Array
) -> Float[Array, ""]:
    """The largest of sums with the wider kernel, over the sum itself."""
    q, k, weights, _ = weighed(layout, queries, keys, logs)
    sides = Sides(q.x, k.x, (q.half, k.half))
    sums, wide = checked_sums(layout, sides, weights[:, None])
    return jnp.max(jnp.where(sums > 0, wide / sums, jnp.inf))


@jax.jit
def _extent(queries: Array, keys: Array, logs: Array) -> tuple[Array, Array, Array]:
    keys = counted(keys, logs)
    q, k = framed(queries, keys)
    return q.half * k.half, *nearness(queries, keys, logs)
