"""Memory of a process, and whether repeating commands makes it grow.

Resident memory is no measure of it: the allocator keeps freed memory, and what is
imported or compiled for the first time stays.
"""

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

WARMING = 2  # warm-up rounds
ROUNDS = 6


class MemoryUse(NamedTuple):
    """Memory in use, after garbage and compiled programs are dropped."""

    kilobytes: int  # of the C allocator: arrays, compiled programs, long texts
    blocks: int  # of Python's own: objects


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks"),
            *("fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


_ALLOCATOR = ctypes.CDLL(None)
_ALLOCATOR.mallinfo2.restype = _Mallinfo


def memory_use() -> MemoryUse:
    """The memory in use by this process."""
    jax.clear_caches()
    gc.collect()
    info = _ALLOCATOR.mallinfo2()
    return MemoryUse((info.uordblks + info.hblkhd) >> 10, sys.getallocatedblocks())


def repeat_and_measure(work: Callable[[], object]) -> list[MemoryUse]:
    """The memory in use after each of several rounds of the same work."""
    actual = []
    for _ in range(ROUNDS):
        work()
        actual.append(memory_use())
    return actual


def growth_per_round(actual: list[MemoryUse]) -> MemoryUse:
    """The memory that a round adds once everything is warm.

    The smaller of median and mean: a table that is filled once changes only the mean,
    and memory that is allocated in one round and freed in the next only the median.
    """
    differences = np.diff(np.array(actual[WARMING - 1 :]), axis=0)
    kilobytes, blocks = np.minimum(
        np.median(differences, axis=0), differences.mean(axis=0)
    )
    return MemoryUse(int(kilobytes), int(blocks))
