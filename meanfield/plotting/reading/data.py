"""Reading of a dataset for panels: runs, finite states, endings."""

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

from .description import is_flat, moves_directions, spec_of

_VARIABLES = {
    "points": ("x", "weight"),
    "gaussian": ("mean", "factor"),
    "grid": ("mass", "outflow", "origin", "axes", "edges_x"),
}

# A dataset of an unknown kind is drawn as a Gaussian if it contains `_MOMENTS`.
_MOMENTS = ("mean", "factor")

_ROUND = 1e-5  # largest relative difference of norms on one sphere

NOTHING = (
    "No frame of this run is finite, so there is nothing to draw; "
    "`meanfield show RUN` says how it ended."
)


class Ending(NamedTuple):
    """How a run ended; times that do not apply are NaN."""

    status: Status
    stop_time: float
    t_star: float
    t_star_error: float


class Track(NamedTuple):
    r"""A moving Gaussian: means (time, d) and factors (time, d, r), $\Sigma = YY^T$."""

    mean: np.ndarray
    factor: np.ndarray

    def take(self, frames: np.ndarray) -> "Track":
        """The Gaussian at the given frames."""
        return Track(self.mean[frames], self.factor[frames])

    def project(self, axes: np.ndarray, origin: np.ndarray) -> "Track":
        """The image under $x -> (x - origin) axes$, for axes of shape (d, k)."""
        return Track((self.mean - origin) @ axes, axes.T @ self.factor)


class Swarm(NamedTuple):
    """Moving tokens: states (time, n, d), weights with sum one, positions or None.

    `position` is None for unordered tokens, which have neither a mask nor a text, even
    if the dataset contains positions.
    """

    x: np.ndarray
    weights: np.ndarray
    position: np.ndarray | None

    def take(self, frames: np.ndarray) -> "Swarm":
        """The tokens at the given frames."""
        return self._replace(x=self.x[frames])

    def project(self, axes: np.ndarray, origin: np.ndarray) -> "Swarm":
        """The image under $x -> (x - origin) axes$, for axes of shape (d, k)."""
        return self._replace(x=(self.x - origin) @ axes)


@dataclass(frozen=True)
class Cloud:
    """One run of tokens or of a Gaussian, at the times when its state is finite.

    `closure`, if any, is the Gaussian that solves the closed equation, at these times;
    `whole` is the run before projection onto some axes; `words` are the labels of
    the tokens; `look` is the look of the picture; `names` are those of chosen axes.
    `is_flat` says whether tokens move in Euclidean space: on a sphere they are never
    near a Gaussian, so that no outlines are drawn. `moves_directions` says whether
    directions of tokens form clusters.
    """

    times: np.ndarray
    state: Swarm | Track
    closure: Track | None
    ending: Ending
    whole: "Cloud | None" = None
    words: np.ndarray | None = None
    look: Look = Look()
    names: tuple[str, ...] = ()
    is_flat: bool = True
    moves_directions: bool = False

    @property
    def dimension(self) -> int:
        """The number $d$ of coordinates."""
        return self.state[0].shape[-1]

    @property
    def radius(self) -> float | None:
        """The radius of the sphere that tokens move on; None if there is none."""
        if self.is_flat or self.whole is not None or not isinstance(self.state, Swarm):
            return None
        norms = np.linalg.norm(self.state.x[0], axis=-1)
        return float(norms[0]) if is_near(norms, float(norms[0])) else None

    def take(self, frames: np.ndarray) -> "Cloud":
        """The run at the given frames."""
        return replace(
            self,
            times=self.times[frames],
            state=self.state.take(frames),
            closure=None if self.closure is None else self.closure.take(frames),
        )

    def project(self, axes: np.ndarray, origin: np.ndarray) -> "Cloud":
        """The image under $x -> (x - origin) axes$, for axes of shape (d, k)."""
        state, closure = self.state.project(axes, origin), self.closure
        closure = None if closure is None else closure.project(axes, origin)
        return replace(self, state=state, closure=closure, whole=self)


def is_near(radii: np.ndarray | float, radius: float) -> bool:
    """Whether radii equal another one, up to the rounding of single precision."""
    return bool(np.all(np.abs(radii - radius) <= _ROUND * radius))


def kind(dataset: xr.Dataset) -> str:
    """Check the variables of a dataset; return its kind: points, gaussian or grid.

    A dataset of another kind that contains `mean` and `factor` is read as `gaussian`.

    Raises:
        InvalidInputError: if the kind is none of these, or a variable is missing.
    """
    name = dataset.attrs.get("kind")
    if name not in _VARIABLES:
        if name is not None and all(key in dataset for key in _MOMENTS):
            return "gaussian"
        hint = " A sweep is drawn by the panel `phase`." if name == "sweep" else ""
        raise InvalidInputError(
            "The dataset must be of kind `points`, `gaussian` or `grid`, or contain "
            f"{' and '.join(_MOMENTS)}; got the kind {name!r}.{hint}"
        )
    missing = [key for key in _VARIABLES[name] if key not in dataset]
    if missing:
        raise InvalidInputError(
            f"A dataset of kind `{name}` must contain "
            f"{' and '.join(_VARIABLES[name])}; `{missing[0]}` is missing."
        )
    return name


def values(dataset: xr.Dataset, name: str, dims: tuple[str, ...]) -> np.ndarray:
    """The variable `name` in double precision, with its axes in the order of `dims`.

    Values with modulus above `LARGEST` become NaN, except for times.

    Raises:
        InvalidInputError: if the variable has other dimensions, or no entries.
    """
    variable = dataset[name]
    if set(variable.dims) != set(dims) or 0 in variable.shape:
        raise InvalidInputError(
            f"`{name}` must have the dimensions {dims} with positive sizes; "
            f"got {dict(variable.sizes)}."
        )
    array = np.asarray(variable.transpose(*dims).values, dtype=np.float64)
    return (
        array if name == "time" else np.where(np.abs(array) <= LARGEST, array, np.nan)
    )


def check_finite(numbers: np.ndarray) -> None:
    """Raises unless some number is finite.

    Raises:
        InvalidInputError: if there is nothing to draw.
    """
    if not np.isfinite(numbers).any():
        raise InvalidInputError(NOTHING)


def finite_frames(*arrays: np.ndarray) -> np.ndarray:
    """Mask of the frames (first axis) in which all entries of the arrays are finite."""
    whole = [np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in arrays]
    return np.logical_and.reduce(whole)


def runs(dataset: xr.Dataset) -> Iterator[xr.Dataset]:
    """The runs of an ensemble one by one, or the dataset itself."""
    if "run" not in dataset.dims:
        yield dataset
        return
    for index in range(dataset.sizes["run"]):
        yield dataset.isel(run=index)


def track(run: xr.Dataset, prefix: str = "") -> Track:
    """The Gaussian of one run, in the variables `{prefix}mean` and `{prefix}factor`."""
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
        raise InvalidInputError(
            "`weight` must be finite and nonnegative, with a positive sum; got weights "
            f"from {weights.min():g} to {weights.max():g}."
        )
    position = values(run, "position", ("token",)) if _is_ordered(run) else None
    return Swarm(
        values(run, "x", ("time", "token", "coord")), weights / total, position
    )


def _is_ordered(run: xr.Dataset) -> bool:
    """Whether positions are used; true if the run has a mask, a text, or no spec."""
    if "position" not in run:
        return False
    spec = spec_of(run)
    return spec is None or spec.is_masked or spec.text is not None


def ending(run: xr.Dataset) -> Ending:
    """The ending of one run; a run without a `status` is taken as finished."""

    def number(name: str) -> float:
        return float(run[name].values) if name in run else np.nan

    status = Status.FINISHED
    if "status" in run:
        variable = run["status"]
        meanings = str(variable.attrs.get("flag_meanings", "")).split()
        flags = np.atleast_1d(variable.attrs.get("flag_values", range(len(meanings))))
        names = dict(zip(flags.tolist(), meanings, strict=True))
        name = names.get(int(variable.values), Status.FINISHED.ending)
        status = Status.from_name(name)
    return Ending(status, number("stop_time"), number("t_star"), number("t_star_error"))


def spec_and_ending(run: xr.Dataset) -> tuple[RunSpec | None, Ending]:
    """The spec of a run, or None if the dataset has none, and how the run ended.

    Raises:
        InvalidInputError: if the spec is invalid.

    Examples:
        >>> from pathlib import Path
        >>> import meanfield
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import spec_and_ending
        >>> keys = {"measure": "gaussian", "A": 1.0, "cov": 2.0, "t": 1.0}
        >>> _ = runs.execute(spec.parse(keys), out=Path("run.zarr"))
        >>> run_spec, end = spec_and_ending(meanfield.open("run.zarr"))
        >>> run_spec.t, f"{end.status} at {end.t_star:.3f}"
        (1.0, 'blow-up at 0.250')
    """
    return spec_of(run), ending(run)


def cloud(run: xr.Dataset) -> Cloud:
    """One run of tokens or of a Gaussian, without frames that are not finite.

    Raises:
        InvalidInputError: if no frame is finite, or the dataset contains a density.
    """
    if kind(run) == "grid":
        raise InvalidInputError(
            "This panel needs tokens or a Gaussian; this run has a density. Use the "
            "panel `density`, `balance` or `spectrum`."
        )
    state = swarm(run) if kind(run) == "points" else track(run)
    times = values(run, "time", ("time",))
    arrays = [state.x] if isinstance(state, Swarm) else list(state)
    frames = np.flatnonzero(finite_frames(*arrays))
    if frames.size == 0:
        raise InvalidInputError(NOTHING)
    closure = track(run, "closure_") if "closure_mean" in run else None
    words = run["word"].values.astype(str) if "word" in run else None
    names = tuple(run["coord"].values.tolist()) if "coord" in run.coords else ()
    whole_run = Cloud(
        times,
        state,
        closure,
        ending(run),
        words=words,
        look=look_of(run),
        names=names,
        is_flat=is_flat(run),
        moves_directions=moves_directions(run),
    )
    return whole_run.take(frames)
