"""Processes that work for this one: Ctrl-C is not theirs, and they end when it does."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import TypeVar

from ._plugins import load_plugins
from ._session import open_session

T = TypeVar("T")


@contextmanager
def processes(count: int, plugins: Sequence[Path]) -> Iterator[ProcessPoolExecutor]:
    """A pool with a session in each process; all end with the block, whatever they do.

    Args:
        count: of the processes.
        plugins: what each of them loads.
    """
    context = get_context("spawn")
    files = (list(plugins),)
    pool = ProcessPoolExecutor(count, context, initializer=_ready, initargs=files)
    try:
        yield pool
    finally:
        for process in active_children():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def begin(
    pool: ProcessPoolExecutor, function: Callable[..., T], calls: Sequence[tuple]
) -> list[Future[T]]:
    """Hands all calls to the pool, whose processes start with SIGINT blocked.

    A terminal sends Ctrl-C to all; this process alone answers it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        begun = [pool.submit(function, *arguments) for arguments in calls]
        # The pool wakes its watcher of processes before it starts one: without another
        # call the watcher would not see the last one die.
        pool.submit(_nothing)
        return begun
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    """A call for its wake-up alone."""


def _ready(plugins: list[Path]) -> None:
    """What a process does first, before it imports anything that takes long."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    open_session()
    load_plugins(plugins)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
