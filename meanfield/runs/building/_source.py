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


def source_count(path: str) -> int:
    """How many tokens or cells a frame of a stored run has; none if it is a Gaussian.

    Raises:
        InputFileError: if there is none.
        StoreError: if it holds no frame.
    """
    store = RunStore.open(path)
    cells = store.last_frame().get("mass")
    return store.sizes.get("token", 0) if cells is None else cells.size


def source_numbers(path: str) -> int:
    """How many numbers all frames of a stored run hold together.

    Raises:
        InputFileError: if there is none.
        StoreError: if it holds no frame.
    """
    store = RunStore.open(path)
    return store.frames * sum(array.size for array in store.last_frame().values())


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
    source = Frames(str(spec.source))
    index = source.index(spec.at)
    at = float(source.times[index] if spec.at is None else spec.at)
    if spec.times is not None and abs(spec.times[0] - at) > source.rounding(at):
        raise InvalidInputError(
            f"The run starts from a state at t = {at:g}, so its `times` begin there; "
            f"got {spec.times[0]:g}."
        )
    return source.measure(spec, index)


class Frames:
    """The frames of a stored run of one flow.

    Args:
        path: where the run is.

    Raises:
        InputFileError: if there is none.
        InvalidInputError: if it holds several draws.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = RunStore.open(path)
        self._dataset = self._store.dataset()
        if "run" in self._dataset.dims:
            raise InvalidInputError(
                f"`{path}` holds {self._dataset.sizes['run']} flows; "
                "name a run of one flow, without `draws` and `starts`."
            )

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return self._dataset["time"].values

    def rounding(self, at: float) -> float:
        """How far a time as it is printed may be from one that is stored."""
        return _ROUNDINGS * float(np.finfo(self.times.dtype).eps) * max(1.0, abs(at))

    def index(self, at: float | None) -> int:
        """The index of the frame at a time, of the last if it is `None`.

        Raises:
            InvalidInputError: if there is no frame at that time.
        """
        times = self.times
        at = float(times[-1]) if at is None else at
        index = int(np.argmin(np.abs(times - at)))
        if abs(float(times[index]) - at) > self.rounding(at):
            raise InvalidInputError(
                f"`{self._path}` has no frame at t = {at:g}; the nearest is at t = "
                f"{self._written(float(times[index]))}."
            )
        return index

    def _written(self, t: float) -> str:
        """A time in as few digits as find its frame again: 2.01, whatever its bits."""
        texts = (f"{t:.{digits}g}" for digits in range(3, 18))
        return next(text for text in texts if abs(float(text) - t) <= self.rounding(t))

    def measures(self, spec: RunSpec) -> list[AbstractMeasure]:
        """All frames, of which each chunk is read once."""
        self._dataset.load()
        return [self.measure(spec, index) for index in range(len(self.times))]

    def measure(self, spec: RunSpec, index: int) -> AbstractMeasure:
        """A frame, in the format of a spec."""
        moment = self._dataset.isel(time=index)
        home = representation_in(moment)
        names = [n for n in (*home.moving, *home.static_names) if n in moment]
        dtype = dtype_of(spec)
        arrays = {name: moment[name].values.astype(dtype) for name in names}
        box = spec.box or self._store.spec.get("box")  # goes on moving as it did
        return home.restored(spec.model_copy(update={"box": box}), arrays, arrays)
