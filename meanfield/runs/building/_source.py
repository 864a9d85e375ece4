"""Starting from a frame of another run."""

import numpy as np

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure
from meanfield.runs.representations import (
    dimension_in,
    representation_in,
    representations,
)
from meanfield.spec import RunSpec
from meanfield.storage import RunStore

from ._precision import dtype_of

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
    return representations[spec.measure].of_frame(spec, stored_measure(spec))


def stored_measure(spec: RunSpec) -> AbstractMeasure:
    """The frame of `spec.source` at time `spec.at`, as it is there.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or several draws, or if
            the `times` that are asked for begin at another.
    """
    store = RunStore.open(str(spec.source))
    dataset = store.dataset()
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"`{spec.source}` holds {dataset.sizes['run']} draws; "
            "start from a run of one."
        )
    moment = dataset.isel(time=_index(spec, dataset["time"].values))
    home = representation_in(moment)
    names = [n for n in (*home.moving, *home.static_names) if n in moment]
    arrays = {name: moment[name].values.astype(dtype_of(spec)) for name in names}
    box = spec.box or store.spec.get("box")  # goes on moving as it did
    return home.restored(spec.model_copy(update={"box": box}), arrays, arrays)


def _index(spec: RunSpec, times: np.ndarray) -> int:
    at = float(times[-1]) if spec.at is None else spec.at
    index = int(np.argmin(np.abs(times - at)))
    off = _ROUNDINGS * np.finfo(times.dtype).eps * max(1.0, abs(at))
    if abs(float(times[index]) - at) > off:
        raise InvalidInputError(
            f"`{spec.source}` has no frame at t = {at:g}; the nearest is at t = "
            f"{times[index]!s}."
        )
    if spec.times is not None and abs(spec.times[0] - at) > off:
        raise InvalidInputError(
            f"The run starts from a state at t = {at:g}, so its `times` begin there; "
            f"got {spec.times[0]:g}."
        )
    return index
