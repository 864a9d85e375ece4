"""Threads that share the programs and the device of this process."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(count: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads that compute side by side, by default as many as there are cores.

    The end of the block waits for none of them, so that an interrupt ends the command
    at once: calls that have not begun are dropped, and the block itself waits for the
    results that it needs.

    Examples:
        >>> from meanfield.workers import threads
        >>> with threads(2) as pool:
        ...     squares = list(pool.map(lambda x: x**2, range(4)))
        >>> squares
        [0, 1, 4, 9]
    """
    pool = ThreadPoolExecutor(count or os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
