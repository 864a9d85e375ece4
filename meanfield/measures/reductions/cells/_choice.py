"""Which cells sums are to have: of the kinds there are, those that cost least."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._exponential import cheapest
from ._gauss import Nearness, cheapest_gauss
from ._gauss_bound import WIDER
from ._layout import ROOM, AbstractLayout

ALONE = 2.0  # how much lonelier queries may be than those that were asked


class Extent(NamedTuple):
    """How far a sum reaches, as either kind of cells sees it.

    Attributes:
        spans: what scores vary by from their middle along each axis.
        nearness: how queries and keys lie to each other.
    """

    spans: Float[np.ndarray, " k"]
    nearness: Nearness


def chosen(
    extents: Sequence[Extent],
    *,
    tokens: int,
    rows: int,
    error: float,
) -> AbstractLayout | None:
    """The layout that costs least for several sums, with some room; `None` if none.

    Args:
        extents: of each sum.
        tokens: queries and keys together.
        rows: sums for each query.
        error: how far weights of keys may be off in a sum, over the sum.

    Examples:
        >>> from meanfield.measures.reductions.cells import Extent, Nearness, chosen
        >>> extent = Extent(np.full(3, 25.0), Nearness(np.full(3, 5.0), 8.0))
        >>> chosen([extent], tokens=2_000_000, rows=4, error=1e-7).cells
        (14, 14, 14)
    """
    if len({len(extent.spans) for extent in extents}) != 1:
        return None
    farthest = ROOM * np.max([extent.spans for extent in extents], axis=0)
    found = [
        layout
        for layout in (
            cheapest(list(map(float, farthest)), tokens, rows, error=error),
            cheapest_gauss(roomy(extents), tokens, rows, error=error),
        )
        if layout is not None
    ]
    return min(found, key=lambda layout: layout.seconds(tokens, rows), default=None)


def roomy(extents: Sequence[Extent]) -> Nearness:
    """What holds all of several sums, with some room."""
    each = [extent.nearness for extent in extents]
    halves = ROOM * np.max([near.halves for near in each], axis=0)
    return Nearness(halves, ALONE * max(near.loneliness for near in each))


def typical(tokens: int, d: int, *, error: float) -> AbstractLayout | None:
    r"""The layout for standard normal tokens and scores $x\cdot y$: an estimate.

    Examples:
        >>> from meanfield.measures import typical
        >>> typical(10_000, 1, error=1e-3).counts, typical(10_000, 5, error=1e-9)
        ((70,), None)
    """
    span = 2 * math.log(tokens)
    near = Nearness(np.full(d, span**0.5), WIDER ** (d / 2))
    sizes = {"tokens": 2 * tokens, "rows": d + 1}
    return chosen([Extent(np.full(d, span), near)], **sizes, error=error)
