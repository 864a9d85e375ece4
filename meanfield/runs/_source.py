"""Starting from a frame of another run."""

import numpy as np

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure
from meanfield.spec import RunSpec
from meanfield.storage import RunStore

from ._measures import VARIABLES, as_measure, restored, weighted
from ._precision import dtype_of

_ROUNDINGS = 8  # between a time as it is printed and as it is stored


def source_dimension(path: str) -> int:
    """The dimension of a stored run.

    Raises:
        InputFileError: if there is none.
        StoreError: if it holds no frame.
    """
    frame = RunStore.open(path).last_frame()
    return frame["x" if "x" in frame else "mean"].shape[-1]


def source_measure(spec: RunSpec) -> AbstractMeasure:
    """The frame of `spec.source` at time `spec.at`; a Gaussian of points if asked.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or it is a Gaussian and
            points are asked for.
    """
    dataset = RunStore.open(str(spec.source)).dataset()
    if "run" in dataset.dims:
        raise InvalidInputError(
            f"`{spec.source}` holds {dataset.sizes['run']} draws; "
            "start from a run of one."
        )
    moment = dataset.isel(time=_index(spec, dataset["time"].values))
    names = [name for name in VARIABLES if name in moment]
    frame = {name: moment[name].values.astype(dtype_of(spec)) for name in names}
    if "factor" in frame:
        if spec.measure == "points":
            raise InvalidInputError(
                f"`{spec.source}` holds a Gaussian; go on with `measure = gaussian`."
            )
        return restored(spec, frame, {})
    points = weighted(spec, frame["x"], frame["weight"], frame["position"])
    return as_measure(spec, points)


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
