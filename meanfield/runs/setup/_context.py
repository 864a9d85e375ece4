"""Frames of other runs: those that a run starts from, and what its tokens look at.

Tokens look at each other, unless a spec names a context.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from meanfield.dynamics import (
    AbstractContext,
    AbstractDynamics,
    Cross,
    Moving,
    Still,
)
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.runs.representations import Start, dimension_in, representation_in
from meanfield.spec import AttentionSpec, Context, context_of
from meanfield.storage import RunStore

from ._files import read_states
from ._parameters import Draw, square, vector

Times = Callable[[], np.ndarray]
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


def stored_measure(start: Start, times: Sequence[float] | None) -> AbstractMeasure:
    """The frame that a run starts from, as it is in the run named by `source`.

    Args:
        start: that of the run.
        times: those of its frames, if they are given.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or several draws, or if
            the times that are asked for begin at another.
    """
    source, at = Frames(str(start.keys.source)), start.keys.at
    index = source.index(at)
    at = float(source.times[index] if at is None else at)
    if times is not None and abs(times[0] - at) > source.rounding(at):
        raise InvalidInputError(
            f"The run starts from a state at t = {at:g}, so its `times` begin there; "
            f"got {times[0]:g}."
        )
    return source.measure(start, index)


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

    def measures(self, start: Start) -> list[AbstractMeasure]:
        """All frames, of which each chunk is read once."""
        self._dataset.load()
        return [self.measure(start, index) for index in range(len(self.times))]

    def measure(self, start: Start, index: int) -> AbstractMeasure:
        """A frame, with the sums and in the format of a start."""
        moment = self._dataset.isel(time=index)
        home = representation_in(moment)
        dtype = start.grid.dtype
        arrays = {name: a.astype(dtype) for name, a in home.arrays(moment).items()}
        grid = start.grid.in_box(self._store.spec.get("box"))  # moves on as it did
        return home.restore(replace(start, grid=grid), arrays, arrays)


def context_dimension(text: str) -> int | None:
    """The dimension that a context fixes, if it does.

    Raises:
        InputFileError: if there is no such file or run.
    """
    context = context_of(text)
    if context.file is not None:
        return read_states(context.file).shape[1]
    return None if context.run is None else source_dimension(context.run)


def keys_seen(text: str) -> int:
    """How many tokens or cells a context has; none if it is a Gaussian.

    Raises:
        InputFileError: if there is no such file or run.
    """
    context = context_of(text)
    if context.file is not None:
        return len(read_states(context.file))
    return 0 if context.run is None else source_count(context.run)


def most_keys(texts: Iterable[str | None]) -> int:
    """How many tokens or cells the largest of these contexts has; none without any.

    Raises:
        InputFileError: if there is no such file or run.
    """
    return max((keys_seen(text) for text in texts if text is not None), default=0)


def numbers_moving(texts: Iterable[str | None]) -> int:
    """How many numbers the frames hold of all these contexts that move.

    Raises:
        InputFileError: if there is no such run.
    """
    parts = (context_of(text) for text in texts if text is not None)
    return sum(source_numbers(str(part.run)) for part in parts if part.moves)


class Contexts:
    """What the tokens of a spec look at; a run or a file is read once for all draws.

    Args:
        start: that of the run, whose sums and cells they have.
        times: gives those of its frames.
    """

    def __init__(self, start: Start, times: Times) -> None:
        self._start, self._times = start, times
        self._read: dict[str, AbstractContext] = {}

    def across(
        self,
        moves: AbstractDynamics,
        part: AttentionSpec,
        d: int,
        draw: Draw,
        *,
        prefix: str = "",
    ) -> AbstractDynamics:
        """A dynamics whose tokens look at the context of a part, if it has one.

        Args:
            moves: what moves tokens that look at each other.
            part: the attention: the spec itself, or one of its terms.
            d: the dimension.
            draw: for matrices that are drawn.
            prefix: of the names of the part.

        Raises:
            InvalidInputError: if keys do not fit together.
            InputFileError: if there is no such file or run.
        """
        if part.context is None:
            return moves
        if part.context not in self._read:
            context = context_of(part.context)
            if context.run is None and context.file is None:
                return Cross(moves, Still(_gaussian(part, d, draw, prefix)))
            self._read[part.context] = self._stored(context)
        return Cross(moves, self._read[part.context])

    def _stored(self, context: Context) -> AbstractContext:
        """What a run or a file holds."""
        if context.file is not None:
            x = read_states(context.file)
            how = self._start.sums.reduction(*x.shape)
            position = np.arange(1, len(x) + 1) / len(x)
            return Still(Points.uniform(x, position=position, reduction=how))
        frames = Frames(str(context.run))
        if not context.moves:
            return Still(frames.measure(self._start, frames.index(context.at)))
        ts, times = frames.times, self._times()
        early = ts[0] - times[0] > frames.rounding(ts[0])
        late = times[-1] - ts[-1] > frames.rounding(ts[-1])
        if early or late:
            raise InvalidInputError(
                f"The context `{context.run}` moves from t = {ts[0]:g} to {ts[-1]:g}, "
                f"and the run from {times[0]:g} to {times[-1]:g}: choose times within."
            )
        return Moving.through(ts, frames.measures(self._start))


def _gaussian(part: AttentionSpec, d: int, draw: Draw, prefix: str) -> Gaussian:
    mean = 0.0 if part.context_mean is None else part.context_mean
    cov = 1.0 if part.context_cov is None else part.context_cov
    alpha = vector(f"{prefix}context_mean", mean, d)
    Sigma = square(f"{prefix}context_cov", cov, d, draw)
    return Gaussian.from_moments(alpha, Sigma)
