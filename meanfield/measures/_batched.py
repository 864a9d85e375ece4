"""Batching of small clouds: how many are integrated in one call.

Sums over few tokens have an overhead that the clouds of a batch share. But a large
batch waits for its slowest member and exceeds the cache. So a batch takes at most a
quarter of the memory of one block of scores of a large cloud.
"""

from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
from typing_extensions import override

from ._gaussian import Gaussian
from ._measure import AbstractMeasure
from ._points import Points
from ._reader import AbstractReader
from .reductions import AbstractReduction, Blocked, BlockedBatch, Dense

M = TypeVar("M", bound=AbstractMeasure)

# A batch takes 1 / SHARE of the memory of a block: 1 MB on a CPU, which is enough for
# 16 to 32 clouds of 64 tokens.
SHARE = 4


class MaxBatchSize(AbstractReader[int]):
    """The number of clouds in a batch, given one of the clouds or a stack of them.

    The number is zero for large, interpolated or already batched clouds, and for other
    measures.
    """

    @override
    def check(self, mu: AbstractMeasure) -> None:
        del mu  # no check, as stacks are allowed

    @override
    def read_points(self, mu: Points) -> int:
        n, d = mu.tokens.x.shape[-2:]
        room = _numbers(mu.reduction, mu.tokens.x.dtype) // SHARE
        count = room // (n * (n + d))
        return count if count > 1 else 0

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> int:
        return 0

    @override
    def read_grid(self, mu: AbstractMeasure) -> int:
        return 0

    @override
    def read_zonal(self, mu: AbstractMeasure, nodes: Points) -> int:
        return 0

    @override
    def read_gaussian(self, mu: Gaussian) -> int:
        return 0

    @override
    def read_facing(self, mu: AbstractMeasure) -> int:
        return 0


def as_batched(mu: M) -> M:
    """A small cloud with a `BlockedBatch` reduction; other measures are unchanged.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import as_batched
        >>> type(as_batched(Points.uniform(jnp.zeros((8, 2)))).reduction).__name__
        'BlockedBatch'
    """
    if not (isinstance(mu, Points) and isinstance(mu.reduction, Blocked)):
        return mu
    if not max_batch_size(mu):
        return mu
    return eqx.tree_at(lambda cloud: cloud.reduction, mu, BlockedBatch(mu.reduction))


def _numbers(reduction: AbstractReduction, dtype: jnp.dtype) -> int:
    """The number of scores in a block; zero for interpolated sums."""
    reduction = Blocked() if isinstance(reduction, Dense) else reduction
    if not isinstance(reduction, Blocked):
        return 0
    block = reduction.shape(dtype)
    return block.keys * block.queries


max_batch_size = MaxBatchSize()
