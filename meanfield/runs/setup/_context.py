"""Starts and contexts (keys) that come from other runs or from files.

Tokens attend to each other, unless the spec names a context.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from meanfield.dynamics import (
    AbstractContext,
    AbstractDynamics,
    Cross,
    MovingContext,
    StaticContext,
)
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.runs.representations import Start, dimension_in, representation_in
from meanfield.spec import AttentionSpec, Context, context_of
from meanfield.storage import RunStore

from ._files import read_states
from ._parameters import Draw, square, vector

Times = Callable[[], np.ndarray]
_ROUNDINGS = 8  # allowed gap between a stored and a printed time, in machine epsilons


def source_dimension(path: str) -> int:
    """The dimension of a stored run.

    Raises:
        InputFileError: if there is no such run.
        StoreError: if it holds no frame.
    """
    store = RunStore.open(path)
    return dimension_in({**store.static(), **store.last_frame()})


def n_source_numbers(path: str) -> int:
    """The total number of floats in all frames of a stored run.

    Raises:
        InputFileError: if there is no such run.
        StoreError: if it holds no frame.
    """
    store = RunStore.open(path)
    return store.frames * sum(array.size for array in store.last_frame().values())


def load_measure(start: Start, times: Sequence[float] | None) -> AbstractMeasure:
    """The frame of the run `source` that a new run starts from.

    Args:
        start: the start of the new run.
        times: the times of its frames, if the spec lists them.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if that run has several flows or no frame at that time, or
            if `times` begin at another time.
    """
    source, t = Frames(str(start.keys.source)), start.keys.at
    index = source.index(t)
    t = float(source.times[index] if t is None else t)
    if times is not None and abs(times[0] - t) > source.rounding(t):
        raise InvalidInputError(
            f"`times` must begin at t = {t:g}, the time of the frame that the run "
            f"starts from; got {times[0]:g}."
        )
    return source.measure(start, index)


class Frames:
    """The frames of a stored run with one flow.

    Args:
        path: the folder of the run.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it holds several flows.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = RunStore.open(path)
        self._dataset = self._store.dataset()
        if "run" in self._dataset.dims:
            raise InvalidInputError(
                f"`{path}` holds {self._dataset.sizes['run']} flows; "
                "use a run with one flow, made without `draws` and `starts`."
            )

    @property
    def times(self) -> np.ndarray:
        """The times of the frames."""
        return self._dataset["time"].values

    def rounding(self, t: float) -> float:
        """Largest difference that rounding causes between printed and stored times."""
        return _ROUNDINGS * float(np.finfo(self.times.dtype).eps) * max(1.0, abs(t))

    def index(self, t: float | None) -> int:
        """The index of the frame at time `t`, or of the last frame if `t` is `None`.

        Raises:
            InvalidInputError: if there is no frame at that time.
        """
        times = self.times
        t = float(times[-1]) if t is None else t
        index = int(np.argmin(np.abs(times - t)))
        if abs(float(times[index]) - t) > self.rounding(t):
            raise InvalidInputError(
                f"`{self._path}` has no frame at t = {t:g}; the nearest one has t = "
                f"{self._format_time(float(times[index]))}."
            )
        return index

    def _format_time(self, t: float) -> str:
        """A time with the fewest digits that still identify its frame, such as 2.01."""
        texts = (f"{t:.{digits}g}" for digits in range(3, 18))
        return next(text for text in texts if abs(float(text) - t) <= self.rounding(t))

    def measures(self, start: Start) -> list[AbstractMeasure]:
        """All frames as measures."""
        self._dataset.load()  # reads each chunk only once
        return [self.measure(start, index) for index in range(len(self.times))]

    def measure(self, start: Start, index: int) -> AbstractMeasure:
        """A frame as a measure, with the dtype and the settings for sums of `start`."""
        frame = self._dataset.isel(time=index)
        representation = representation_in(frame)
        arrays = representation.arrays(frame)
        arrays = {name: a.astype(start.grid.dtype) for name, a in arrays.items()}
        grid = start.grid.replace_box(self._store.spec.get("box"))  # the stored box
        return representation.restore(replace(start, grid=grid), arrays, arrays)


def context_dimension(text: str) -> int | None:
    """The dimension that a context fixes; `None` if it fixes none.

    Raises:
        InputFileError: if there is no such file or run.
    """
    context = context_of(text)
    if context.file is not None:
        return read_states(context.file).shape[1]
    return None if context.run is None else source_dimension(context.run)


def n_context_keys(text: str) -> int:
    """The number of tokens or cells in a context; 0 for a Gaussian.

    Raises:
        InputFileError: if there is no such file or run.
        StoreError: if the run holds no frame.
    """
    context = context_of(text)
    if context.file is not None:
        return len(read_states(context.file))
    if context.run is None:
        return 0
    store = RunStore.open(context.run)
    cells = store.last_frame().get("mass")
    return store.sizes.get("token", 0) if cells is None else cells.size


def max_context_keys(texts: Iterable[str | None]) -> int:
    """The number of tokens or cells in the largest of several contexts; at least 0.

    Raises:
        InputFileError: if there is no such file or run.
    """
    return max((n_context_keys(text) for text in texts if text is not None), default=0)


def n_moving_numbers(texts: Iterable[str | None]) -> int:
    """The total number of floats in the frames of all moving contexts.

    Raises:
        InputFileError: if there is no such run.
    """
    parts = (context_of(text) for text in texts if text is not None)
    return sum(n_source_numbers(str(part.run)) for part in parts if part.moves)


class Contexts:
    """The contexts of a spec, each read once for all draws.

    Args:
        start: the start of the run; contexts take its settings for sums and cells.
        times: a function that returns the times of the run's frames.
    """

    def __init__(self, start: Start, times: Times) -> None:
        self._start, self._times = start, times
        self._read: dict[str, AbstractContext] = {}

    def add_context(
        self,
        dynamics: AbstractDynamics,
        part: AttentionSpec,
        d: int,
        draw: Draw,
        *,
        prefix: str = "",
    ) -> AbstractDynamics:
        """The dynamics of an attention `part`, with its context as keys if it has one.

        Args:
            dynamics: the dynamics of tokens that attend to each other.
            part: the attention, which is the spec itself or one of its terms.
            d: the dimension.
            draw: the random keys of the draw, for random matrices.
            prefix: the prefix of the part's key names, such as `terms.0.`.

        Raises:
            InvalidInputError: if keys contradict each other.
            InputFileError: if there is no such file or run.
        """
        if part.context is None:
            return dynamics
        if part.context not in self._read:
            context = context_of(part.context)
            if context.run is None and context.file is None:
                return Cross(dynamics, StaticContext(_gaussian(part, d, draw, prefix)))
            self._read[part.context] = self._load(context)
        return Cross(dynamics, self._read[part.context])

    def _load(self, context: Context) -> AbstractContext:
        """Loads the context from a run or a file."""
        if context.file is not None:
            x = read_states(context.file)
            how = self._start.sums.reduction(*x.shape)
            position = np.arange(1, len(x) + 1) / len(x)
            return StaticContext(Points.uniform(x, position=position, reduction=how))
        frames = Frames(str(context.run))
        if not context.moves:
            index = frames.index(context.time)
            return StaticContext(frames.measure(self._start, index))
        ts, times = frames.times, self._times()
        early = ts[0] - times[0] > frames.rounding(ts[0])
        late = times[-1] - ts[-1] > frames.rounding(ts[-1])
        if early or late:
            raise InvalidInputError(
                f"The context `{context.run}` covers t = {ts[0]:g} to {ts[-1]:g}, but "
                f"the run needs t = {times[0]:g} to {times[-1]:g}: shorten the run."
            )
        return MovingContext.from_frames(ts, frames.measures(self._start))


def _gaussian(part: AttentionSpec, d: int, draw: Draw, prefix: str) -> Gaussian:
    mean = 0.0 if part.context_mean is None else part.context_mean
    cov = 1.0 if part.context_cov is None else part.context_cov
    alpha = vector(f"{prefix}context_mean", mean, d)
    Sigma = square(f"{prefix}context_cov", cov, d, draw)
    return Gaussian.from_moments(alpha, Sigma)
