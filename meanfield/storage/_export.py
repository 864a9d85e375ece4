"""Exports a dataset for other programs: as `.npz`, `.csv` or netCDF."""

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

from ._schema import RESERVED_NAMES, RUN, TIME
from .disk import replace_file

if TYPE_CHECKING:
    import xarray

_DIGITS = "%.17g"  # from 17 digits a float64 can be read back exactly
_SAMPLE = 1000  # number of rows from which the length of all rows is estimated
_ONE_DIGIT = 10  # in more dimensions, `cov111` would be ambiguous
_LOAD_LIMIT = 2**26  # size in bytes up to which a dataset is read as a whole
_BLOCK_ROWS = 2**16  # rows of a table written together, rounded to whole frames

Rows = Callable[["xarray.Dataset"], dict[str, np.ndarray]]


def export(dataset: "xarray.Dataset", path: str | os.PathLike[str]) -> None:
    """Writes a dataset to a file, in the format given by the suffix of `path`.

    `.npz` holds all variables. Its entry `attrs` is JSON text with the attributes of
    the dataset. In this text, the key `variables` gives the dimensions and attributes
    of each variable. For a grid, `.npz` also holds the centres of the cells, as
    `centre`.

    `.nc` is netCDF, which xarray opens. Attributes that netCDF cannot hold, such as the
    spec, are JSON text.

    `.csv` is one long table, with a row for each

    - token of each frame: `time`, `layer` (of a model), `token`, `word` (of a text),
      `weight`, `position`, `x0`, …;
    - frame of a Gaussian: `time`, `mean0`, …, `cov00`, …;
    - cell of each frame of a grid: `time`, `position`, `x0`, … (its centre),
      `density`, `mass`.

    Columns for diagnostics follow, such as `energy`.

    Raises:
        InvalidInputError: if the suffix is unknown, or the dataset does not fit into a
            table.
        ResourceError: if the file cannot be written; an existing file is then left
            unchanged.

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
    """The size of a dataset as `.csv`, in bytes, estimated from its middle frame.

    Raises:
        InvalidInputError: if the dataset does not fit into a table.

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
    frames = dataset.sizes[TIME]
    # The first frame would not be typical, as its rows are short if it has zeros.
    middle = dataset.isel({TIME: [frames // 2]})
    columns = list(next(_blocks(middle, _rows(middle))).values())
    length = len(columns[0])
    sample = [column[:: -(-length // _SAMPLE)] for column in columns]
    rows = dataset.sizes.get(RUN, 1) * frames * length
    return rows * len(_table(sample)) // len(sample[0])


def _write_npz(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    if "mass" in dataset:
        dataset = dataset.assign(centre=(_centre_dims(dataset), cell_centres(dataset)))
    variables = {str(name): v for name, v in dataset.variables.items()}
    metadata = {name: {"dims": v.dims, **v.attrs} for name, v in variables.items()}
    attrs = json.dumps({**dataset.attrs, "variables": metadata})
    arrays: dict[str, Any] = {name: v.values for name, v in variables.items()}
    np.savez(stream, **{"attrs": np.asarray(attrs), **arrays})


def _write_netcdf(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    attr_types = str | int | float | list | tuple | np.ndarray
    plain = dataset.copy()
    for part in (plain, *plain.variables.values()):
        part.attrs = {
            name: value if isinstance(value, attr_types) else json.dumps(value)
            for name, value in part.attrs.items()
        }
    stream.write(plain.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _write_csv(dataset: "xarray.Dataset", stream: IO[bytes]) -> None:
    if dataset.nbytes <= _LOAD_LIMIT:
        dataset = dataset.load()
    for number, columns in enumerate(_blocks(dataset, _rows(dataset))):
        if number == 0:
            stream.write(f"{','.join(columns)}\n".encode())
        stream.write(_table(list(columns.values())))


def _rows(dataset: "xarray.Dataset") -> Rows:
    if "x" in dataset:
        return _point_rows
    if "mean" in dataset and "factor" in dataset:
        return _gaussian_rows
    if "mass" in dataset and "density" in dataset:
        return _grid_rows
    raise InvalidInputError(
        "A table needs the variables `x`, or `mean` and `factor`, or `mass` and "
        f"`density`; this one has {', '.join(map(str, dataset))}. Export it as `.npz`."
    )


def _blocks(dataset: "xarray.Dataset", rows: Rows) -> Iterator[dict[str, np.ndarray]]:
    """The columns of a table, run by run, in blocks of whole frames."""
    for run in range(dataset.sizes.get(RUN, 1)):
        label = {RUN: np.asarray([run])} if RUN in dataset.sizes else {}
        run_data = dataset.isel({RUN: run}, missing_dims="ignore")
        first = rows(run_data.isel({TIME: slice(1)}))
        n_frames = max(1, _BLOCK_ROWS // len(next(iter(first.values()))))
        for start in range(0, run_data.sizes[TIME], n_frames):
            frames = run_data.isel({TIME: slice(start, start + n_frames)})
            columns = rows(frames)
            n_rows = len(next(iter(columns.values())))
            spread = lambda column, n=n_rows: np.repeat(column, n // len(column))
            moment = {k: frames[k].values for k in (TIME, "layer") if k in frames}
            parts = {**label, **moment, **columns, **_numbers(frames)}
            yield {name: spread(column) for name, column in parts.items()}


def _numbers(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    """The variables with one number per frame, such as energies."""
    return {
        str(name): np.atleast_1d(variable.values)
        for name, variable in frames.data_vars.items()
        if variable.dims in ((), (TIME,)) and name not in RESERVED_NAMES
    }


def _point_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    x = frames["x"].values
    n_frames, n, d = x.shape
    names = [name for name in ("word", "weight", "position") if name in frames]
    static = {"token": np.arange(n)} | {name: frames[name].values for name in names}
    columns = x.reshape(-1, d).T
    return {name: np.tile(column, n_frames) for name, column in static.items()} | {
        f"x{i}": column for i, column in enumerate(columns)
    }


def _gaussian_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    mean, Y = frames["mean"].values, frames["factor"].values.astype(np.float64)
    Sigma = Y @ Y.swapaxes(-1, -2)
    d = mean.shape[-1]
    separator = "_" if d > _ONE_DIGIT else ""
    return {f"mean{i}": mean[:, i] for i in range(d)} | {
        f"cov{i}{separator}{j}": Sigma[:, i, j] for i in range(d) for j in range(d)
    }


def _grid_rows(frames: "xarray.Dataset") -> dict[str, np.ndarray]:
    mass, centres = frames["mass"].values, cell_centres(frames)
    n_frames, d = len(centres), centres.shape[-1]
    centres = centres.reshape(n_frames, 1, -1, d)  # a frame, a layer, a cell
    layers = mass.reshape(n_frames, -1, centres.shape[2])
    columns = {}
    if "position" in frames:
        positions = np.broadcast_to(frames["position"].values[:, None], layers.shape)
        columns["position"] = positions.ravel()
    coords = np.broadcast_to(centres, (*layers.shape, d)).reshape(-1, d).T
    columns |= {f"x{i}": coord for i, coord in enumerate(coords)}
    return {
        **columns,
        "density": frames["density"].values.ravel(),
        "mass": mass.ravel(),
    }


def cell_centres(dataset: "xarray.Dataset") -> np.ndarray:
    r"""The centres $c + D\xi$ of a grid's cells, (…, cell_x[, cell_y], coord)."""
    edges = [dataset[e].values for e in ("edges_x", "edges_y") if e in dataset]
    box = dataset["origin"].values, dataset["axes"].values
    return points(*box, *map(centres, edges))


def _centre_dims(dataset: "xarray.Dataset") -> tuple[str, ...]:
    cells = (dim for dim in ("cell_x", "cell_y") if dim in dataset.dims)
    return (*map(str, dataset["origin"].dims[:-1]), *cells, "coord")


def _table(columns: Sequence[np.ndarray]) -> bytes:
    """Columns as lines of `.csv` text."""
    text = io.StringIO()
    lines = zip(*map(_cells, columns), strict=True)
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _cells(values: np.ndarray) -> np.ndarray:
    """The entries of a column as text, with all digits of floats."""
    column = np.asarray(values)
    if column.dtype.kind in "OUS":
        return column.astype(str)
    return np.char.mod(_DIGITS, column.astype(np.float64))


FORMATS: Mapping[str, Callable[["xarray.Dataset", IO[bytes]], None]] = MappingProxyType(
    {".npz": _write_npz, ".csv": _write_csv, ".nc": _write_netcdf}
)
