"""Arguments of kernels."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from jaxtyping import Array, Float

from meanfield.scores.pairs import Link

from ._exp2 import exp2

Mask = Callable[[Array, Array], Array]
T = TypeVar("T")


class Tile(NamedTuple):
    """Numbers of tokens in a tile of pairs, and of the warps that compute it."""

    resident: int
    stream: int
    n_warps: int


class KernelSide(NamedTuple):
    r"""Queries or keys, with tokens along the last axis.

    Scores are inner products of `vectors`; or, with `references` $r$, sums over rows of
    $u(a - bu)$, where $u = y - r$, and `vectors` are $y$ for keys and $a$ for queries.

    Attributes:
        vectors: vectors of the scores.
        offset: a term of each score.
        position: positions, which a mask compares.
        references: $r$, only for queries.
        bend: $b$, repeated for each query.
        factors: rows whose inner products multiply the slopes of links.
    """

    vectors: Float[Array, "k n"]
    offset: Float[Array, "1 n"]
    position: Float[Array, "1 n"] | None = None
    references: Float[Array, "k n"] | None = None
    bend: Float[Array, "1 n"] | None = None
    factors: Float[Array, "p n"] | None = None


class Terms(NamedTuple):
    """Rows of the tokens of a stream, summed with values or slopes of a link."""

    by_value: Float[Array, "p n"] | None = None
    by_slope: Float[Array, "p n"] | None = None


class Method(NamedTuple):
    """Static properties of a kernel.

    Attributes:
        link: the link; `is_entrywise` holds.
        mask: predicate on the positions of a query and a key.
        has_resident_keys: whether keys are resident, and queries are the stream.
        is_interpreted: whether Pallas interprets the kernel, for tests on a processor.
        tile: the tile; by default, it depends on the numbers of rows.
    """

    link: Link = exp2
    mask: Mask | None = None
    has_resident_keys: bool = False
    is_interpreted: bool = False
    tile: Tile | None = None

    def order(self, resident: T, stream: T) -> tuple[T, T]:
        """The queries and the keys."""
        return (stream, resident) if self.has_resident_keys else (resident, stream)
