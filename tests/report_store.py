"""Small runs on disk for the tests of reports, written without integrating."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator

from meanfield.storage import Ending, RunStore

SPEC = {"attention": "softmax", "A": -1.0, "V": 1.0, "n": 30, "d": 2, "t": 2.0}
NO_ATTRS: Mapping[str, Any] = MappingProxyType({})
FINISHED_ENDING = Ending("finished", "the last time was reached", 2.0)


def moving_tokens(
    rng: Generator, n: int = 30, frames: int = 9, d: int = 2
) -> np.ndarray:
    """Tokens that contract to their mean and rotate: (time, n, d)."""
    t = np.linspace(0, 2, frames)[:, None, None]
    x = 0.4 + rng.normal(size=(n, d)) * np.exp(-t)
    return np.concatenate([x[..., :1] + 0.2 * np.sin(3 * t), x[..., 1:]], axis=-1)


def unfinished_run(
    path: Path,
    x: np.ndarray,
    spec: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] = NO_ATTRS,
) -> RunStore:
    """An unfinished run without its last three frames."""
    n, d = x.shape[1:]
    keys = {**SPEC, "n": n, "d": d} if spec is None else dict(spec)
    attrs = {"spec": keys, "kind": "points", "dtype": "float64"}
    attrs["versions"], attrs["device"] = {"meanfield-attention": "0.2"}, "cpu"
    attrs |= more
    static = {"weight": np.full(n, 1 / n), "position": np.linspace(0, 1, n)}
    store = RunStore.create(path, attrs=attrs, static=static)
    _append(store, x, slice(0, len(x) - 3), None)
    return store


def finished_run(
    path: Path,
    x: np.ndarray,
    spec: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] = NO_ATTRS,
) -> Path:
    """A finished run."""
    store = unfinished_run(path, x, spec, more)
    finish_run(store, x)
    store.close()
    return path


def finish_run(store: RunStore, x: np.ndarray) -> None:
    """Appends the last three frames and the ending."""
    _append(store, x, slice(len(x) - 3, len(x)), FINISHED_ENDING)


def _append(store: RunStore, x: np.ndarray, part: slice, end: Ending | None) -> None:
    times = np.linspace(0, 2, len(x))[part]
    member: dict[str, Any] = {"status": None if end is None else 0}
    member |= {"time": float(times[-1]), "t_star": None, "t_star_error": None}
    member |= {"residual": 0.0, "n_accepted": 1, "n_rejected": 0}
    store.append({"time": times, "x": x[part]}, {"members": [member]}, end)
