"""What is stored at a path, be it run, sweep or comparison, as a dataset; no JAX."""

import os
from typing import TYPE_CHECKING

from meanfield._reading import path_of
from meanfield.runs.comparing._record import comparison_dataset, is_comparison
from meanfield.runs.sweeps._store import is_sweep, sweep_dataset

from ._dataset import dataset

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
