"""Cells in which exponentials vary little: each is within a bound known beforehand."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from ._bound import MOST, growth, largest_reach, relative_error
from ._frame import Side, framed
from ._layout import DIMENSIONS, FEWEST, FINER, MORE, ROUNDING, AbstractLayout, fits
from ._tiles import far_ends, places_of_nodes


@dataclasses.dataclass(frozen=True)
class Layout(AbstractLayout):
    """Cells for exponentials, each of which is within the bound of its own.

    Attributes:
        nodes: of a cell, along each of its axes.
        cells: along each axis, the same for queries and for keys.
        reach: what scores may vary by, in a cell and over all tokens of the other side.

    Examples:
        >>> from meanfield.measures import Layout
        >>> layout = Layout(nodes=10, cells=(12, 8), reach=1.0)
        >>> layout.counts, layout.bound < 1e-7
        ((120, 80), True)
    """

    reach: float

    @property
    @override
    def bound(self) -> float:
        """How far an interpolated kernel is from its own, over that, at most.

        Rounding included, which grows as what is interpolated on either side does; but
        not that of the inner products themselves, which exact sums have, too.
        """
        error = relative_error(self.nodes, self.reach)
        rounding = ROUNDING * growth(self.nodes, self.reach) ** (2 * len(self.cells))
        return math.expm1(len(self.cells) * math.log1p(error)) + rounding

    @property
    @override
    def checks(self) -> int:
        return 0

    @override
    def roomier(self, tokens: int, rows: int) -> "Layout | None":
        spans = [MORE * self.reach * count for count in self.cells]
        return cheapest(spans, tokens, rows, error=self.bound / FINER)

    @override
    def sides(self, queries: Array, keys: Array, logs: Array) -> tuple[Side, Side]:
        return framed(queries, keys)

    @override
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        r"""For each query a number that no $q_i\cdot k_j$ passes."""
        of_queries = jnp.abs(jax.lax.stop_gradient(q.x)) @ k.half
        return of_queries, jnp.zeros(len(k.x), k.x.dtype)

    @override
    def cell_tops(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    ) -> list[Float[Array, " cells"]]:
        """`tops` at the far ends of cells, so that no kernel between nodes is large."""
        spans = halves[0] * halves[1]
        return [
            span * jnp.asarray(far_ends(count))
            for count, span in zip(self.cells, spans, strict=True)
        ]

    @override
    def kernels(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]], *, wide: bool
    ) -> list[Float[Array, "nodes nodes"]]:
        spans, kernels = halves[0] * halves[1], []
        for cells, span in zip(self.cells, spans, strict=True):
            places = places_of_nodes(cells, self.nodes)
            tops = np.repeat(far_ends(cells), self.nodes)[:, None]
            kernels.append(jnp.exp(span * jnp.asarray(np.outer(places, places) - tops)))
        return kernels

    @override
    def holds(
        self, q: Side, k: Side, weights: Float[Array, " n"], sums: Float[Array, "m r"]
    ) -> Bool[Array, ""]:
        """Whether scores vary by no more, in a cell, than it reaches."""
        reaches = q.half * k.half / jnp.asarray(self.cells)
        # Terms are lost over the top of a cell, and sums are over those of queries.
        mass = sums[:, 0] * jnp.exp(-2 * jnp.sum(reaches))
        return jnp.all(reaches <= self.reach) & self.is_full(k, mass)


def cheapest(
    spans: Sequence[float], tokens: int, rows: int, *, error: float
) -> Layout | None:
    """The layout that costs least; `None` if nodes do not fit or axes are too many.

    Args:
        spans: along each axis, the half-width of the queries times that of the keys:
            what scores may vary by from the middle.
        tokens: queries and keys together.
        rows: sums for each query.
        error: what it may miss of a kernel, relative to that.
    """
    if len(spans) > DIMENSIONS:
        return None
    along_one = math.expm1(math.log1p(0.9 * error) / len(spans))  # the rest: rounding
    found = [
        layout
        for nodes in range(FEWEST, MOST + 1)
        if (layout := _of_nodes(nodes, spans, along_one)) is not None
        and layout.bound <= error
        and fits(layout, rows)
    ]
    return min(found, key=lambda layout: layout.seconds(tokens, rows), default=None)


def _of_nodes(nodes: int, spans: Sequence[float], error: float) -> Layout | None:
    reach = largest_reach(nodes, error)
    if reach <= 0 or not all(map(math.isfinite, spans)):
        return None
    cells = tuple(max(1, math.ceil(span / reach)) for span in spans)
    return Layout(nodes, cells, reach)
