"""Opens a stored run, sweep or comparison, without importing JAX."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield._reading import path_of
from meanfield.storage import RunStore

from .comparisons._record import (
    DISTANCES,
    comparison_dataset,
    distances_dataset,
    is_comparison,
)
from .records._dataset import dataset
from .records._numbers import add_numbers
from .records._plugins import missing_plugins, resolve_plugins
from .sweeps._store import SweepStore, is_sweep, sweep_dataset

if TYPE_CHECKING:
    import xarray


def open(path: str | os.PathLike[str]) -> "xarray.Dataset":  # noqa: A001
    """A stored run, sweep or comparison as an `xarray.Dataset`.

    A run gives its frames, read from disk lazily: `data["x"].isel(time=-1)` reads one.
    Further variables have one number per frame, computed when they are read:
    `effective_rank`, `largest_eigenvalue` and `smallest_eigenvalue` of the covariance,
    `clusters` of tokens as in the panel of this name, and what `observe` recorded.
    A sweep gives its cells. A comparison gives the gaps by pair and time; its runs lie
    in the same folder and can be opened one by one. The folder of `meanfield compare`
    with stored runs gives their distances by pair and time.

    `xarray.open_zarr` cannot read a store, because it is not a single zarr group.
    Frames are committed segment by segment, and readers must not see an unfinished
    commit.

    Args:
        path: the folder that a command got as `--out`, or a function as `out`.

    Raises:
        InputFileError: if `path` holds neither a run, a sweep nor a comparison.
        StoreError: if the folder is damaged or has no frame yet. Damage in a frame is
            found only when the frame is read.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "t": 0.1, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> meanfield.open("run.zarr")["x"].shape
        (3, 5, 2)
    """
    folder = path_of(path)
    if is_comparison(folder):
        return comparison_dataset(folder)
    if (folder / DISTANCES).exists():
        return distances_dataset(folder)
    return sweep_dataset(folder) if is_sweep(folder) else add_numbers(dataset(folder))


def plugins_of(path: Path, files: Sequence[Path] = ()) -> list[Path]:
    """The plugins to load before a run or a sweep is resumed.

    These are `files` and, for each other recorded plugin, a file that this user has
    loaded before and that has the recorded digest. A file is never run just because a
    record names it.

    Args:
        path: the folder of the run or of the sweep.
        files: plugins that the user names now; they replace recorded ones.

    Raises:
        InputFileError: if a plugin has changed, or this user has never loaded it.
        StoreError: if the recorded digests are damaged.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.plugins_of(Path("run.zarr"))
        []
    """
    return resolve_plugins(_inputs(path), files)


def check_plugins_unchanged(path: Path, files: Sequence[Path]) -> None:
    """Checks that files with the names of recorded plugins have the same content.

    Raises:
        InputFileError: if a plugin has changed.
        StoreError: if the recorded digests are damaged.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.check_plugins_unchanged(Path("run.zarr"), [])  # none was recorded
    """
    record = _inputs(path)
    if record is not None:
        missing_plugins(record, files)


def _inputs(path: Path) -> object:
    """The recorded digests of the input files of a run or a sweep."""
    if is_sweep(path):
        return SweepStore.open(path).record.get("inputs")
    return RunStore.open(path).attrs.get("inputs")
