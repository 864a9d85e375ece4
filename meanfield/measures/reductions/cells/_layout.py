"""Cells along axes, with nodes in each: what all kinds have in common, and cost."""

import abc
import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._frame import Side

# Operations a second in products of matrices, on two cores: of tiles, and of axes.
TILES, AXES = 3e10, 6e10
SORTED = 3e-7  # seconds for a token that is sorted into its cell, and taken from there
PAIRS = 2.6e9  # of exact sums a second, in double precision
KERNELS = 1e9  # exponentials a second
LARGEST = 2**28  # numbers that are held at once: 2 GB
DIMENSIONS = 5  # beyond, cells are too many
ROOM = 1.25  # how much farther scores may vary than where they are planned
FEWEST = 3  # nodes in a cell
ROUNDING = 1e-15  # of a number, a few operations on
MORE, FINER = 2.0, 8.0  # room and accuracy that are added when a plan is lost


@dataclasses.dataclass(frozen=True)
class AbstractLayout(abc.ABC):
    """Cells along each axis, and the nodes along each axis of a cell.

    Attributes:
        nodes: of a cell, along each of its axes.
        cells: along each axis, the same for queries and for keys.

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
        """Nodes along each axis of all cells."""
        return tuple(self.nodes * count for count in self.cells)

    @property
    @abc.abstractmethod
    def bound(self) -> float:
        """How far weights of keys are off in a sum, over the sum, at most: in L¹."""

    @property
    @abc.abstractmethod
    def checks(self) -> int:
        """Rows that are summed to find out whether the bound holds."""

    def numbers(self, rows: int) -> int:
        """How many are held at once: on all nodes, and between those of an axis."""
        held = (rows + self.checks) * math.prod(self.counts)
        return held + sum(count**2 for count in self.counts)

    def seconds(self, tokens: int, rows: int) -> float:
        """About what sums of so many rows take, for queries and keys together."""
        rows, d, counts = rows + self.checks, len(self.cells), self.counts
        in_tiles = 2 * tokens * rows * self.nodes**d
        along_axes = 2 * rows * math.prod(counts) * sum(counts)
        kernels = sum(count**2 for count in counts) / KERNELS
        return tokens * SORTED + in_tiles / TILES + along_axes / AXES + kernels

    @abc.abstractmethod
    def roomier(self, tokens: int, rows: int) -> "AbstractLayout | None":
        """For farther tokens and a smaller bound; `None` if nodes do not fit."""

    @abc.abstractmethod
    def sides(
        self,
        queries: Float[Array, "m k"],
        keys: Float[Array, "n k"],
        logs: Float[Array, " n"],
    ) -> tuple[Side, Side]:
        """Queries and keys along the axes that are cut."""

    @abc.abstractmethod
    def tops(self, q: Side, k: Side) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        r"""Parts of scores by whose exponentials sums are divided: of queries, of keys.

        Continuous, so that rounding never changes them by more than itself: they are
        computed within a program and beside it. Constants for derivatives.
        """

    def cell_tops(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]]
    ) -> list[Float[Array, " cells"]]:
        """Along each axis, what `kernels` divide by in place of `tops`, by cell.

        Of the queries; none if they divide by `tops` of nodes.
        """
        del halves
        return []

    @abc.abstractmethod
    def kernels(
        self, halves: tuple[Float[Array, " k"], Float[Array, " k"]], *, wide: bool
    ) -> list[Float[Array, "nodes nodes"]]:
        """The kernel between nodes along each axis; that of checks if `wide`.

        Over the exponential of `cell_tops`.
        """

    @abc.abstractmethod
    def holds(
        self, q: Side, k: Side, weights: Float[Array, " n"], sums: Float[Array, "m r"]
    ) -> Bool[Array, ""]:
        """Whether sums are within the bound.

        Args:
            q: queries.
            k: keys.
            weights: of the keys.
            sums: of the weights, and then the checks.
        """

    def is_full(self, k: Side, mass: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether no sum is so small that terms lost to underflow matter."""
        info = jnp.finfo(mass.dtype)
        lost = len(k.x) * math.prod(self.counts) * float(info.tiny)
        return jnp.all(mass > lost / float(info.eps))


def fits(layout: AbstractLayout, rows: int) -> bool:
    """Whether the numbers of so many rows may be held at once."""
    return layout.numbers(rows) <= LARGEST
