"""The interface of all layouts, which are cells with nodes, and the cost of layouts."""

import abc
import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._frame import Side

# Operations per second of two cores in matrix products, first within tiles and then
# along axes.
TILES, AXES = 3e10, 6e10
SORT_SECONDS = 3e-7  # seconds to sort a token into its cell and to read it from there
PAIRS = 2.6e9  # pairs per second of exact sums, in double precision
KERNELS = 1e9  # exponentials per second
LARGEST = 2**28  # largest count of numbers in memory at once; they take 2 GB
DIMENSIONS = 5  # largest dimension; in higher ones there are too many cells
ROOM = 1.25  # factor by which planned extents exceed the measured ones
FEWEST = 3  # smallest number of nodes along an axis of a cell
ROUNDING = 1e-15  # relative rounding error of a number after a few operations
MORE, FINER = 2.0, 8.0  # extent and accuracy grow by these factors if a plan fails


@dataclasses.dataclass(frozen=True)
class AbstractLayout(abc.ABC):
    """The number of cells along each axis, and of nodes along each axis of a cell.

    Attributes:
        nodes: number of nodes along each axis of a cell.
        cells: number of cells along each axis, for queries and for keys.

    Examples:
        >>> from meanfield.measures import Layout
        >>> from meanfield.measures.reductions.cells import AbstractLayout
        >>> issubclass(Layout, AbstractLayout)
        True
    """

    nodes: int
    cells: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of nodes of all cells, along each axis."""
        return tuple(self.nodes * count for count in self.cells)

    @property
    @abc.abstractmethod
    def bound(self) -> float:
        """Bound on the error of the weights in a sum, relative to the sum, in L¹."""

    @property
    @abc.abstractmethod
    def checks(self) -> int:
        """The number of extra rows that are summed to check the bound."""

    def numbers(self, rows: int) -> int:
        """Count of numbers in memory: values at all nodes, and kernels along axes."""
        n_values = (rows + self.checks) * math.prod(self.counts)
        return n_values + sum(count**2 for count in self.counts)

    def seconds(self, tokens: int, rows: int) -> float:
        """Estimated seconds of a sum, for `tokens` queries and keys in total."""
        rows, d, counts = rows + self.checks, len(self.cells), self.counts
        tile_operations = 2 * tokens * rows * self.nodes**d
        axis_operations = 2 * rows * math.prod(counts) * sum(counts)
        kernels = sum(count**2 for count in counts) / KERNELS
        return (
            tokens * SORT_SECONDS
            + tile_operations / TILES
            + axis_operations / AXES
            + kernels
        )

    @abc.abstractmethod
    def enlarge(self, tokens: int, rows: int) -> "AbstractLayout | None":
        """A layout of larger extent and with a smaller bound; `None` if none fits."""

    @abc.abstractmethod
    def sides(
        self,
        queries: Float[Array, "m k"],
        keys: Float[Array, "n k"],
        logs: Float[Array, " n"],
    ) -> tuple[Side, Side]:
        """Queries and keys along the axes of the cells."""

    @abc.abstractmethod
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        r"""Stabilisers of queries and of keys, which are subtracted from scores.

        They are computed twice, inside and outside the linear map from rows to sums. So
        they must be continuous: rounding then changes them little. Derivatives treat
        them as constants.
        """

    def cell_tops(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    ) -> list[Float[Array, " cells"]]:
        """Stabilisers of `kernels` for each cell of the queries, along each axis.

        They replace `tops` for whole cells. The list is empty if `kernels` instead
        subtract the `tops` at each node.
        """
        del halves
        return []

    @abc.abstractmethod
    def kernels(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]], *, wide: bool
    ) -> list[Float[Array, "nodes nodes"]]:
        """Kernels between nodes along each axis, divided by the `exp` of `cell_tops`.

        Args:
            halves: half-widths of the boxes of queries and of keys.
            wide: whether to return the kernels of checks.
        """

    @abc.abstractmethod
    def holds(
        self, q: Side, k: Side, weights: Float[Array, " n"], sums: Float[Array, "m r"]
    ) -> Bool[Array, ""]:
        """Whether sums are within the bound.

        Args:
            q: the queries.
            k: the keys.
            weights: weights of the keys.
            sums: sums of the weights, followed by the checks.
        """

    def is_full(self, k: Side, mass: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether every sum is so large that terms lost to underflow do not matter."""
        info = jnp.finfo(mass.dtype)
        underflow = len(k.x) * math.prod(self.counts) * float(info.tiny)
        return jnp.all(mass > underflow / float(info.eps))


def fits(layout: AbstractLayout, rows: int) -> bool:
    """Whether the arrays of a layout with `rows` sums fit into memory."""
    return layout.numbers(rows) <= LARGEST
