"""How many cells, and how many nodes in each: what costs least within a tolerance."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ._bound import MOST, growth, largest_reach, relative_error

# Operations a second in products of matrices, on two cores: of tiles, and of axes.
TILES, AXES = 3e10, 8e10
SORTED = 3e-7  # seconds for a token that is sorted into its cell, and taken from there
PAIRS = 2.6e9  # of exact sums a second, in double precision
KERNELS = 1e9  # exponentials a second
LARGEST = 2**28  # numbers that are held at once: 2 GB
DIMENSIONS = 5  # beyond, cells are too many
ROOM = 1.25  # how much farther scores may vary than where they are planned
FEWEST = 3  # nodes in a cell
ROUNDING = 1e-15  # of a number, a few operations on


class Layout(NamedTuple):
    """Cells along each axis, and the nodes along each axis of a cell.

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

    nodes: int
    cells: tuple[int, ...]
    reach: float

    @property
    def counts(self) -> tuple[int, ...]:
        """Nodes along each axis of all cells."""
        return tuple(self.nodes * count for count in self.cells)

    @property
    def bound(self) -> float:
        """How far an interpolated kernel is from its own, over that, at most.

        Rounding included, which grows as what is interpolated on either side does; but
        not that of the inner products themselves, which exact sums have, too.
        """
        error = relative_error(self.nodes, self.reach)
        rounding = ROUNDING * growth(self.nodes, self.reach) ** (2 * len(self.cells))
        return math.expm1(len(self.cells) * math.log1p(error)) + rounding

    def numbers(self, rows: int) -> int:
        """How many are held at once: on all nodes, and between those of an axis."""
        return rows * math.prod(self.counts) + sum(count**2 for count in self.counts)

    def seconds(self, tokens: int, rows: int) -> float:
        """About what sums of so many rows take, for queries and keys together."""
        d, counts = len(self.cells), self.counts
        in_tiles = 2 * tokens * rows * self.nodes**d
        along_axes = 2 * rows * math.prod(counts) * sum(counts)
        kernels = sum(count**2 for count in counts) / KERNELS
        return tokens * SORTED + in_tiles / TILES + along_axes / AXES + kernels


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
        and layout.numbers(rows) <= LARGEST
    ]
    return min(found, key=lambda layout: layout.seconds(tokens, rows), default=None)


def typical(tokens: int, d: int, *, error: float) -> Layout | None:
    r"""The layout for standard normal tokens and scores $x\cdot y$: an estimate.

    Examples:
        >>> from meanfield.measures import typical
        >>> typical(10_000, 1, error=1e-3).counts, typical(10_000, 5, error=1e-9)
        ((102,), None)
    """
    return cheapest([2 * math.log(tokens)] * d, 2 * tokens, d + 1, error=error)


def _of_nodes(nodes: int, spans: Sequence[float], error: float) -> Layout | None:
    reach = largest_reach(nodes, error)
    if reach <= 0 or not all(map(math.isfinite, spans)):
        return None
    cells = tuple(max(1, math.ceil(span / reach)) for span in spans)
    return Layout(nodes, cells, reach)
