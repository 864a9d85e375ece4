"""A dataset as a file that other programs read: NumPy's `.npz`, or a plain `.csv`."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from meanfield._reading import path_of
from meanfield.cells import centres, points
from meanfield.errors import InvalidInputError

from ._schema import RESERVED, RUN, TIME
from .disk import replace_file

if TYPE_CHECKING:
    import xarray

_DIGITS = "%.17g"  # enough for a float64 to come back the same
_SAMPLE = 1000  # rows whose length tells that of all
_ONE_DIGIT = 10  # in more dimensions, `cov111` would be two entries
_HELD = 2**26  # bytes: a dataset of at most so many is read at once
_BLOCK_ROWS = 2**16  # rows of a table that are written at once, of whole frames

Rows = Callable[["xarray.Dataset"], dict[str, np.ndarray]]


def export(dataset: "xarray.Dataset", path: str | os.PathLike[str]) -> None:
    """Writes a dataset in the format that the suffix of `path` names.

    `.npz` holds all variables, and as JSON text `attrs` the dataset's attributes, with
    those and the dimensions of each variable under `variables`. `.nc` is netCDF, which
    xarray opens; the attributes that it cannot hold, such as the spec, are JSON text.

    `.csv` is one long table: a row for each token of each frame (`time`, of a model the
    `layer`, `token`, of a text its `word`, `weight`, `position`, `x0`, …), for each
    frame of a Gaussian (`time`, `mean0`, …, `cov00`, …), or for each cell of each frame
    of a grid (`time`, `position`, `x0`, …, the middle of the cell, `density`, `mass`);
    then a column for each diagnostic, such as `energy`. The middles of a grid's cells
    are the variable `centre` of an `.npz`.

    Raises:
        InvalidInputError: if the suffix is unknown, or a table cannot show the dataset.
        ResourceError: if the file cannot be written; an old one then stays.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.storage import export
        >>> keys = {"measure": "gaussian", "A": -1.0, "cov": 2.0, "t": 1.0, "frames": 3}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> export(meanfield.open("run.zarr"), "run.csv")
        >>> Path("run.csv").read_text().splitlines()[0]
        'time,mean0,cov00'
    """
    target = path_of(path)
    suffix = target.suffix.lower()
    if suffix not in FORMATS:
        raise InvalidInputError(
            f"`{target}` must end in one of {', '.join(FORMATS)}; got `{suffix}`."
        )
    write = FORMATS[suffix]
    replace_file(target, lambda stream: write(dataset, stream))


def table_bytes(dataset: "xarray.Dataset") -> int:
    """About how much a `.csv` of a dataset will hold, from rows of its middle frame.

    Raises:
        InvalidInputError: if a table cannot show the dataset.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.storage import table_bytes
        >>> _ = runs.execute(
        ...     spec.parse({"n": 5, "t": 0.1, "frames": 2}), out=Path("run.zarr")
        ... )
        >>> table_bytes(meanfield.open("run.zarr")) > 0
        True
    """
    frames = dataset.sizes[TIME]  # the first is often short: zeros and ones
    middle = dataset.isel({TIME: [frames // 2]})
    columns = list(next(_blocks(middle, _rows(middle))).values())
    length = len(columns[0])
    some = [column[:: -(-length // _SAMPLE)] for column in columns]
    rows = dataset.sizes.get(RUN, 1) * frames * length
    return rows * len(_table(some)) // len(some[0])


def _write_npz(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    if "mass" in dataset:
        dataset = dataset.assign(centre=(_centre_dims(dataset), cell_centres(dataset)))
    variables = {str(name): v for name, v in dataset.variables.items()}
    about = {name: {"dims": v.dims, **v.attrs} for name, v in variables.items()}
    attrs = json.dumps({**dataset.attrs, "variables": about})
    arrays: dict[str, Any] = {name: v.values for name, v in variables.items()}
    np.savez(stream, **{"attrs": np.asarray(attrs), **arrays})


def _write_netcdf(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    held = str | int | float | list | tuple | np.ndarray
    plain = dataset.copy()
    for part in (plain, *plain.variables.values()):
        part.attrs = {
            name: value if isinstance(value, held) else json.dumps(value)
            for name, value in part.attrs.items()
        }
    stream.write(plain.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _write_csv(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    header = True
    if dataset.nbytes <= _HELD:
        dataset = dataset.load()
    for columns in _blocks(dataset, _rows(dataset)):
        if header:
            stream.write(f"{','.join(columns)}\n".encode())
            header = False
        stream.write(_table(list(columns.values())))


def _rows(dataset: "xarray.Dataset") -> Rows:
    if "x" in dataset:
        return _point_rows
    if "mean" in dataset and "factor" in dataset:
        return _gaussian_rows
    if "mass" in dataset and "density" in dataset:
        return _grid_rows
    raise InvalidInputError(
        "A table shows `x`, `mean` and `factor`, or a `density`; this dataset has "
        f"{', '.join(map(str, dataset))}. Export it as `.npz`."
    )


def _blocks(dataset: "xarray.Dataset", rows: Rows) -> Iterator[dict[str, np.ndarray]]:
    """The columns of some frames at a time, run after run."""
    for run in range(dataset.sizes.get(RUN, 1)):
        label = {RUN: np.asarray([run])} if RUN in dataset.sizes else {}
        one = dataset.isel({RUN: run}, missing_dims="ignore")
        first = rows(one.isel({TIME: slice(1)}))
        n_frames = max(1, _BLOCK_ROWS // len(next(iter(first.values()))))
        for start in range(0, one.sizes[TIME], n_frames):
            frames = one.isel({TIME: slice(start, start + n_frames)})
            columns = rows(frames)
            n_rows = len(next(iter(columns.values())))
            spread = lambda column, n=n_rows: np.repeat(column, n // len(column))
            moment = {k: frames[k].values for k in (TIME, "layer") if k in frames}
            parts = {**label, **moment, **columns, **_numbers(frames)}
            yield {name: spread(column) for name, column in parts.items()}


def _numbers(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    """What a frame has one number of: energies and other diagnostics."""
    return {
        str(name): np.atleast_1d(variable.values)
        for name, variable in frames.data_vars.items()
        if variable.dims in ((), (TIME,)) and name not in RESERVED
    }


def _point_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    x = frames["x"].values
    n_frames, n, d = x.shape
    known = [name for name in ("word", "weight", "position") if name in frames]
    fixed = {"token": np.arange(n)} | {name: frames[name].values for name in known}
    columns = x.reshape(-1, d).T
    return {name: np.tile(column, n_frames) for name, column in fixed.items()} | {
        f"x{i}": column for i, column in enumerate(columns)
    }


def _gaussian_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    mean, Y = frames["mean"].values, frames["factor"].values.astype(np.float64)
    Sigma = Y @ Y.swapaxes(-1, -2)
    d = mean.shape[-1]
    between = "_" if d > _ONE_DIGIT else ""
    return {f"mean{i}": mean[:, i] for i in range(d)} | {
        f"cov{i}{between}{j}": Sigma[:, i, j] for i in range(d) for j in range(d)
    }


def _grid_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    tables = [_cells_of(frames.isel({TIME: i})) for i in range(frames.sizes[TIME])]
    return {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}


def _cells_of(frame: "xarray.Dataset") -> dict[str, np.ndarray]:
    mass, centres = frame["mass"].values, cell_centres(frame)
    layers = mass.reshape(-1, centres[..., 0].size)
    x = np.tile(centres.reshape(-1, centres.shape[-1]), (len(layers), 1))
    known = {}
    if "position" in frame:
        known["position"] = np.repeat(frame["position"].values, layers.shape[1])
    return (
        known
        | {f"x{i}": coord for i, coord in enumerate(x.T)}
        | {"density": frame["density"].values.ravel(), "mass": mass.ravel()}
    )


def cell_centres(dataset: "xarray.Dataset") -> np.ndarray:
    r"""The middles $c + D\xi$ of a grid's cells (…, cell_x[, cell_y], coord)."""
    edges = [dataset[e].values for e in ("edges_x", "edges_y") if e in dataset]
    box = dataset["origin"].values, dataset["axes"].values
    return points(*box, *map(centres, edges))


def _centre_dims(dataset: "xarray.Dataset") -> tuple[str, ...]:
    cells = (dim for dim in ("cell_x", "cell_y") if dim in dataset.dims)
    return (*map(str, dataset["origin"].dims[:-1]), *cells, "coord")


def _table(columns: Sequence[np.ndarray]) -> bytes:
    """Columns as lines of text."""
    text = io.StringIO()
    lines = zip(*map(_cells, columns), strict=True)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _cells(values: np.ndarray) -> np.ndarray:
    """A column of a table: numbers in all their digits, or words."""
    column = np.asarray(values)
    if column.dtype.kind in "OUS":
        return column.astype(str)
    return np.char.mod(_DIGITS, column.astype(np.float64))


FORMATS: Mapping[str, Callable[["xarray.Dataset", IO[bytes]], None]] = MappingProxyType(
    {".npz": _write_npz, ".csv": _write_csv, ".nc": _write_netcdf}
)
