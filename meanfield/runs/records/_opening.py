"""What is stored at a path, a run or a sweep, as a dataset; without JAX."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.runs.sweeps._store import is_sweep, sweep_dataset

from ._dataset import dataset

if TYPE_CHECKING:
    import xarray


def open(path: str | os.PathLike[str]) -> "xarray.Dataset":  # noqa: A001
    """The frames of a stored run, or the cells of a sweep, as a dataset of xarray.

    A store is no single zarr group, so that `xarray.open_zarr` does not read it: frames
    are committed segment by segment, and those of a cut commit must not be seen.

    Args:
        path: a folder written by `simulate --out` or `sweep --out`.

    Raises:
        InputFileError: if there is neither a run nor a sweep at `path`.
        StoreError: if it is damaged or holds no frame yet.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> keys = {"n": 5, "d": 2, "t": 0.1, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> meanfield.open("run.zarr")["x"].shape
        (3, 5, 2)
    """
    folder = Path(path)
    return sweep_dataset(folder) if is_sweep(folder) else dataset(folder)
