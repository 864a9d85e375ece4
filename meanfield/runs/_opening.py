"""What is stored at a path, be it run, sweep or comparison, without JAX."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield._reading import path_of
from meanfield.storage import RunStore

from .comparing._record import comparison_dataset, is_comparison
from .records._dataset import dataset
from .records._plugins import completed_plugins, missing_plugins
from .sweeps._store import SweepStore, is_sweep, sweep_dataset

if TYPE_CHECKING:
    import xarray


def open(path: str | os.PathLike[str]) -> "xarray.Dataset":  # noqa: A001
    """A stored run, sweep or comparison as a dataset of xarray.

    Of a run the frames, which are read from the disk when their numbers are asked for:
    `data["x"].isel(time=-1)` reads one. Of a sweep the cells; of a comparison the gaps
    by pair and time, with its runs to be opened in the same folder.

    A store is no single zarr group, so that `xarray.open_zarr` does not read it: frames
    are committed segment by segment, and those of a cut commit must not be seen.

    Args:
        path: a folder written by the option `--out` of a command.

    Raises:
        InputFileError: if there is none of them at `path`.
        StoreError: if it is damaged, also when a frame is read, or holds none yet.

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
    return sweep_dataset(folder) if is_sweep(folder) else dataset(folder)


def plugins_of(path: Path, files: Sequence[Path] = ()) -> list[Path]:
    """The plugins to load before one goes on with a run or a sweep.

    They are those given, and for all others that it began with files that the user has
    given before. No file is run because the record names it.

    Args:
        path: the folder of the run or of the sweep.
        files: what the user names, in place of recorded ones too.

    Raises:
        InputFileError: naming a plugin that has changed, or that was never given.
        StoreError: if what was recorded is no such thing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.plugins_of(Path("run.zarr"))
        []
    """
    return completed_plugins(_inputs(path), files)


def refuse_changed_plugins(path: Path, files: Sequence[Path]) -> None:
    """Refuses files that have the name of a recorded plugin, but not its content.

    Raises:
        InputFileError: naming the plugin.
        StoreError: if what was recorded is no such thing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> _ = runs.execute(spec.parse({"n": 5, "t": 0.1}), out=Path("run.zarr"))
        >>> runs.refuse_changed_plugins(Path("run.zarr"), [])  # none was recorded
    """
    record = _inputs(path)
    if record is not None:
        missing_plugins(record, files)


def _inputs(path: Path) -> object:
    """The digests that a run or a sweep recorded of what it was begun with."""
    if is_sweep(path):
        return SweepStore.open(path).record.get("inputs")
    return RunStore.open(path).attrs.get("inputs")
