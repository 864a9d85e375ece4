"""Starting from a frame of another run."""

import numpy as np

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.spec import KEYS, RunSpec
from meanfield.storage import RunStore

from ._grids import gaussian_on_grid
from ._measures import (
    MOVING,
    STATIC,
    as_measure,
    dimension_in,
    kind_in,
    kind_of,
    moments,
    restored,
)
from ._precision import dtype_of

_WORDS = {"gaussian": "Gaussian", "grid": "density on a grid"}
_ROUNDINGS = 8  # between a time as it is printed and as it is stored


def source_dimension(path: str) -> int:
    """The dimension of a stored run.

    Raises:
        InputFileError: if there is none.
        StoreError: if it holds no frame.
    """
    return dimension_in(RunStore.open(path).last_frame())


def source_measure(spec: RunSpec) -> AbstractMeasure:
    """The frame of `spec.source` at time `spec.at`, as the measure that is asked for.

    Points become the Gaussian of their moments, or a density; a Gaussian becomes its
    density, and a density the Gaussian of its moments.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or it is no cloud of points
            and points are asked for.
    """
    found = stored_measure(spec)
    if isinstance(found, Points):
        return as_measure(spec, found)
    if spec.measure == "points":
        raise InvalidInputError(
            f"`{spec.source}` holds a {_WORDS[kind_of(found)]}; go on with "
            f"`measure = {kind_of(found)}`."
        )
    if isinstance(found, Grid) and spec.measure == "gaussian":
        return moments(found.points())
    if isinstance(found, Grid):
        return _same_grid(spec, found)
    assert isinstance(found, Gaussian)
    return gaussian_on_grid(spec, found) if spec.measure == "grid" else found


def stored_measure(spec: RunSpec) -> AbstractMeasure:
    """The frame of `spec.source` at time `spec.at`, as it is there.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or several draws.
    """
    store = RunStore.open(str(spec.source))
    dataset = store.dataset()
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"`{spec.source}` holds {dataset.sizes['run']} draws; "
            "start from a run of one."
        )
    moment = dataset.isel(time=_index(spec, dataset["time"].values))
    names = [name for name in (*MOVING[kind_in(moment)], *STATIC) if name in moment]
    arrays = {name: moment[name].values.astype(dtype_of(spec)) for name in names}
    box = spec.box or store.spec.get("box")  # goes on moving as it did
    return restored(spec.model_copy(update={"box": box}), arrays, arrays)


def _same_grid(spec: RunSpec, found: Grid) -> Grid:
    """The density of another run, on the cells that it has there.

    Raises:
        InvalidInputError: if the spec names others.
    """
    cells = [k for k, row in KEYS.items() if row.group == "Grid" and row.left_behind]
    given = [key for key in cells if key in spec.model_fields_set]
    if given:
        raise InvalidInputError(
            f"`{spec.source}` brings its own cells: leave out `{given[0]}`."
        )
    if spec.is_masked != (found.position is not None):
        has = "no positions" if found.position is None else "positions"
        raise InvalidInputError(
            f"`{spec.source}` has {has}, so that `mask` must be as it was there."
        )
    return found


def _index(spec: RunSpec, times: np.ndarray) -> int:
    at = float(times[-1]) if spec.at is None else spec.at
    index = int(np.argmin(np.abs(times - at)))
    off = _ROUNDINGS * np.finfo(times.dtype).eps * max(1.0, abs(at))
    if abs(float(times[index]) - at) > off:
        raise InvalidInputError(
            f"`{spec.source}` has no frame at t = {at:g}; the nearest is at t = "
            f"{times[index]!s}."
        )
    return index
