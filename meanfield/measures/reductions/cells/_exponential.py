"""Layouts for exponentials, with an a priori bound for each kernel."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from ._bound import MAX_CELL_NODES, growth, largest_reach, relative_error
from ._frame import Side, frame_sides
from ._layout import DIMENSIONS, FEWEST, FINER, MORE, ROUNDING, AbstractLayout, fits
from ._tiles import far_ends, places_of_nodes


@dataclasses.dataclass(frozen=True)
class Layout(AbstractLayout):
    """Cells for exponentials, with a bound on the relative error of each kernel.

    Attributes:
        nodes: number of nodes along each axis of a cell.
        cells: number of cells along each axis, for queries and for keys.
        reach: largest variation of scores in a cell, over all tokens of the other side.

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
        """Bound on the relative error of an interpolated kernel.

        It includes the rounding errors of the interpolation on both sides. It leaves
        out those of inner products, which exact sums also have.
        """
        error = relative_error(self.nodes, self.reach)
        rounding = ROUNDING * growth(self.nodes, self.reach) ** (2 * len(self.cells))
        return math.expm1(len(self.cells) * math.log1p(error)) + rounding

    @property
    @override
    def checks(self) -> int:
        return 0

    @override
    def enlarge(self, tokens: int, rows: int) -> "Layout | None":
        spans = [MORE * self.reach * count for count in self.cells]
        return cheapest_layout(spans, tokens, rows, error=self.bound / FINER)

    @override
    def sides(self, queries: Array, keys: Array, logs: Array) -> tuple[Side, Side]:
        return frame_sides(queries, keys)

    @override
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        r"""An upper bound of $q_i\cdot k_j$ for each query; zeros for the keys."""
        query_tops = jnp.abs(jax.lax.stop_gradient(q.x)) @ k.half
        return query_tops, jnp.zeros(len(k.x), k.x.dtype)

    @override
    def cell_tops(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    ) -> list[Float[Array, " cells"]]:
        """The largest `tops` of each cell; with these, no kernel exceeds one."""
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
        """Whether scores vary by at most `reach` per cell, and no sum is too small."""
        reaches = q.half * k.half / jnp.asarray(self.cells)
        # Sums are relative to `tops`, but terms underflow relative to `cell_tops`.
        mass = sums[:, 0] * jnp.exp(-2 * jnp.sum(reaches))
        return jnp.all(reaches <= self.reach) & self.is_full(k, mass)


def cheapest_layout(
    spans: Sequence[float], tokens: int, rows: int, *, error: float
) -> Layout | None:
    """The cheapest layout; `None` if none fits into memory or there are too many axes.

    Args:
        spans: largest deviation of the scores from their centre along each axis: the
            product of the half-widths of queries and of keys.
        tokens: number of queries plus number of keys.
        rows: number of sums for each query.
        error: largest relative error of a kernel.
    """
    if len(spans) > DIMENSIONS:
        return None
    # A tenth of the allowed error is reserved for rounding.
    axis_error = math.expm1(math.log1p(0.9 * error) / len(spans))
    layouts = [
        layout
        for nodes in range(FEWEST, MAX_CELL_NODES + 1)
        if (layout := _make_layout(nodes, spans, axis_error)) is not None
        and layout.bound <= error
        and fits(layout, rows)
    ]
    return min(layouts, key=lambda layout: layout.seconds(tokens, rows), default=None)


def _make_layout(nodes: int, spans: Sequence[float], error: float) -> Layout | None:
    reach = largest_reach(nodes, error)
    if reach <= 0 or not all(map(math.isfinite, spans)):
        return None
    cells = tuple(max(1, math.ceil(span / reach)) for span in spans)
    return Layout(nodes, cells, reach)
