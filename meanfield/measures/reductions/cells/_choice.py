"""Choice of the cheapest layout of cells for given sums."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._exponential import cheapest_layout
from ._gauss import Nearness, cheapest_gauss_layout
from ._gauss_bound import WIDE_VARIANCE
from ._layout import ROOM, AbstractLayout

RATIO_ROOM = 2.0  # safety factor of `wide_ratio`, which is estimated on a sample


class Extent(NamedTuple):
    """How far scores and tokens spread, which sets the number of cells.

    Attributes:
        spans: largest deviation of the scores from their centre, along each axis. It
            sets the number of cells of a `Layout`.
        nearness: half-widths of the tokens, and how far queries are from keys. They set
            the number of cells of a `GaussLayout`.
    """

    spans: Float[np.ndarray, " k"]
    nearness: Nearness


def choose_layout(
    extents: Sequence[Extent], *, tokens: int, rows: int, error: float
) -> AbstractLayout | None:
    """The cheapest layout that covers several sums with a margin; `None` if none does.

    Args:
        extents: extent of each sum.
        tokens: number of queries plus number of keys.
        rows: number of sums for each query.
        error: largest relative error of the weights in a sum, in $L^1$.

    Examples:
        >>> from meanfield.measures.reductions.cells import Extent, Nearness
        >>> from meanfield.measures.reductions.cells import choose_layout
        >>> extent = Extent(np.full(3, 25.0), Nearness(np.full(3, 5.0), 8.0))
        >>> choose_layout([extent], tokens=2_000_000, rows=4, error=1e-7).cells
        (14, 14, 14)
    """
    if len({len(extent.spans) for extent in extents}) != 1:
        return None
    farthest = ROOM * np.max([extent.spans for extent in extents], axis=0)
    layouts = [
        layout
        for layout in (
            cheapest_layout(list(map(float, farthest)), tokens, rows, error=error),
            cheapest_gauss_layout(combine_nearness(extents), tokens, rows, error=error),
        )
        if layout is not None
    ]
    return min(layouts, key=lambda layout: layout.seconds(tokens, rows), default=None)


def combine_nearness(extents: Sequence[Extent]) -> Nearness:
    """The nearness that covers several sums, with a margin."""
    parts = [extent.nearness for extent in extents]
    halves = ROOM * np.max([part.halves for part in parts], axis=0)
    return Nearness(halves, RATIO_ROOM * max(part.wide_ratio for part in parts))


def typical_layout(tokens: int, d: int, *, error: float) -> AbstractLayout | None:
    r"""An estimate of the layout for standard normal tokens with scores $x\cdot y$.

    Examples:
        >>> from meanfield.measures import typical_layout
        >>> typical_layout(10_000, 1, error=1e-3).counts
        (70,)
        >>> typical_layout(10_000, 5, error=1e-9) is None
        True
    """
    span = 2 * math.log(tokens)
    nearness = Nearness(np.full(d, span**0.5), WIDE_VARIANCE ** (d / 2))
    sizes = {"tokens": 2 * tokens, "rows": d + 1}
    return choose_layout([Extent(np.full(d, span), nearness)], **sizes, error=error)
