"""What the panels read in a dataset: runs, frames that hold a state, endings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import xarray as xr

from meanfield.clusters import LARGEST
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look, look_of
from meanfield.spec import RunSpec

from .described import spec_of

_VARIABLES = {
    "points": ("x", "weight"),
    "gaussian": ("mean", "factor"),
    "grid": ("mass", "outflow", "origin", "axes", "edges_x"),
}

# What is read of any other kind: the Gaussian that has its moments.
_MOMENTS = ("mean", "factor")

NOTHING = (
    "No frame of this run is finite, so there is nothing to draw; "
    "`meanfield show RUN` says how it ended."
)


class Ending(NamedTuple):
    """How a run ended; times are NaN where there is none."""

    status: Status
    stop_time: float
    t_star: float
    t_star_error: float


class Track(NamedTuple):
    r"""A moving Gaussian: means (time, d) and factors (time, d, r), $\Sigma = YY^T$."""

    mean: np.ndarray
    factor: np.ndarray

    def at(self, frames: np.ndarray) -> "Track":
        """The same at some of its frames."""
        return Track(self.mean[frames], self.factor[frames])


class Swarm(NamedTuple):
    """Moving tokens: states (time, n, d), weights of sum one, positions or None.

    Tokens without an order have no positions, though a store numbers them.
    """

    x: np.ndarray
    weights: np.ndarray
    position: np.ndarray | None

    def at(self, frames: np.ndarray) -> "Swarm":
        """The same at some of its frames."""
        return self._replace(x=self.x[frames])


@dataclass(frozen=True)
class Cloud:
    """One run: tokens or a Gaussian at the times when its state is finite.

    `closure`, if any, is the Gaussian that the closed equation moves meanwhile, and
    `whole` is the run in all its coordinates, of which this one shows some. `words`
    are the labels of its tokens, and `look` is the choice of the reader.
    """

    times: np.ndarray
    state: Swarm | Track
    closure: Track | None
    ending: Ending
    whole: "Cloud | None" = None
    words: np.ndarray | None = None
    look: Look = Look()

    @property
    def dimension(self) -> int:
        """The number $d$ of coordinates."""
        return self.state[0].shape[-1]

    def at(self, frames: np.ndarray) -> "Cloud":
        """The same run at some of its frames."""
        return replace(
            self,
            times=self.times[frames],
            state=self.state.at(frames),
            closure=None if self.closure is None else self.closure.at(frames),
        )

    def seen_along(self, axes: np.ndarray, origin: np.ndarray) -> "Cloud":
        """The image under $x -> (x - origin) axes$, for axes of shape (d, k)."""

        def image(track: Track) -> Track:
            return Track((track.mean - origin) @ axes, axes.T @ track.factor)

        state = self.state
        if isinstance(state, Swarm):
            state = state._replace(x=(state.x - origin) @ axes)
        else:
            state = image(state)
        closure = None if self.closure is None else image(self.closure)
        return replace(self, state=state, closure=closure, whole=self)


def kind(dataset: xr.Dataset) -> str:
    """`points`, `gaussian` or `grid`, checked against the variables that are there.

    A dataset of another kind that holds a mean and a factor of its covariance is drawn
    as a `gaussian`.

    Raises:
        InvalidInputError: if it is none of them, or a variable is missing.
    """
    name = dataset.attrs.get("kind")
    if name not in _VARIABLES:
        if name is not None and all(key in dataset for key in _MOMENTS):
            return "gaussian"
        hint = " A sweep is drawn by the panel `phase`." if name == "sweep" else ""
        raise InvalidInputError(
            "This panel draws a dataset of kind `points`, `gaussian` or `grid`, or one "
            f"that holds {' and '.join(_MOMENTS)}; got {name!r}.{hint}"
        )
    missing = [key for key in _VARIABLES[name] if key not in dataset]
    if missing:
        raise InvalidInputError(
            f"A dataset of kind `{name}` must hold {' and '.join(_VARIABLES[name])}; "
            f"`{missing[0]}` is missing."
        )
    return name


def values(dataset: xr.Dataset, name: str, dims: tuple[str, ...]) -> np.ndarray:
    """The variable `name` in double precision, its axes in the order of `dims`.

    Numbers beyond `LARGEST` come out as NaN.

    Raises:
        InvalidInputError: if it has other dimensions, or no entries.
    """
    variable = dataset[name]
    if set(variable.dims) != set(dims) or 0 in variable.shape:
        raise InvalidInputError(
            f"`{name}` must have dimensions {dims}, none empty; "
            f"got {dict(variable.sizes)}."
        )
    array = np.asarray(variable.transpose(*dims).values, dtype=np.float64)
    return np.where(np.abs(array) <= LARGEST, array, np.nan)


def runs(dataset: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an ensemble one by one, or the dataset itself."""
    if "run" not in dataset.dims:
        yield dataset
        return
    for index in range(dataset.sizes["run"]):
        yield dataset.isel(run=index)


def track(run: xr.Dataset, prefix: str = "") -> Track:
    """The Gaussian in `mean` and `factor`, or in `closure_mean`, `closure_factor`."""
    return Track(
        values(run, f"{prefix}mean", ("time", "coord")),
        values(run, f"{prefix}factor", ("time", "coord", "rank")),
    )


def swarm(run: xr.Dataset) -> Swarm:
    """The tokens of one run.

    Raises:
        InvalidInputError: if a weight is negative or not finite, or their sum is zero.
    """
    weights = values(run, "weight", ("token",))
    total = weights.sum()
    if not (np.isfinite(total) and total > 0 and np.all(weights >= 0)):
        raise InvalidInputError("`weight` must be finite and >= 0, with a sum > 0.")
    position = values(run, "position", ("token",)) if _is_ordered(run) else None
    return Swarm(
        values(run, "x", ("time", "token", "coord")), weights / total, position
    )


def _is_ordered(run: xr.Dataset) -> bool:
    """Whether tokens have positions that a mask sees, or that are places in a text."""
    if "position" not in run:
        return False
    spec = spec_of(run)
    return spec is None or spec.is_masked or spec.text is not None


def ending(run: xr.Dataset) -> Ending:
    """How one run ended; a dataset without a status counts as finished."""

    def number(name: str) -> float:
        return float(run[name].values) if name in run else np.nan

    status = Status.FINISHED
    if "status" in run:
        stored = run["status"]
        meanings = str(stored.attrs.get("flag_meanings", "")).split()
        flags = np.atleast_1d(stored.attrs.get("flag_values", range(len(meanings))))
        names = dict(zip(flags.tolist(), meanings, strict=True))
        name = names.get(int(stored.values), Status.FINISHED.ending)
        status = Status.named(name)
    return Ending(status, number("stop_time"), number("t_star"), number("t_star_error"))


def spec_and_ending(run: xr.Dataset) -> tuple[RunSpec | None, Ending]:
    """What a dataset says of its run: the spec, if it carries one, and how it ended.

    Raises:
        InvalidInputError: if the spec makes no sense.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import spec_and_ending
        >>> keys = {"measure": "gaussian", "A": 1.0, "cov": 2.0, "t": 1.0}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> told, end = spec_and_ending(meanfield.open("run.zarr"))
        >>> told.t, f"{end.status} at {end.t_star:.3f}"
        (1.0, 'blow-up at 0.250')
    """
    return spec_of(run), ending(run)


def cloud(run: xr.Dataset) -> Cloud:
    """One run as tokens or as a Gaussian, without frames that hold no finite state.

    Raises:
        InvalidInputError: if no frame does, or the run is that of a density.
    """
    if kind(run) == "grid":
        raise InvalidInputError(
            "This panel draws tokens, or a Gaussian; this run moved a density: use "
            "`density`, `balance` or `spectrum`."
        )
    state = swarm(run) if kind(run) == "points" else track(run)
    times = values(run, "time", ("time",))
    arrays = [state.x] if isinstance(state, Swarm) else list(state)
    whole = [np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in arrays]
    frames = np.flatnonzero(np.logical_and.reduce(whole))
    if frames.size == 0:
        raise InvalidInputError(NOTHING)
    closure = track(run, "closure_") if "closure_mean" in run else None
    words = run["word"].values.astype(str) if "word" in run else None
    whole_run = Cloud(
        times, state, closure, ending(run), words=words, look=look_of(run)
    )
    return whole_run.at(frames)
