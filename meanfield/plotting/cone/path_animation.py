"""Paths of covariances at the times of a movie of the cone or the disc."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from meanfield.plotting._figure.panels import ending_headline
from meanfield.plotting._writing.film import Film
from meanfield.plotting.reading.observables import covariance, sizes_of
from meanfield.plotting.reading.pace import (
    interpolable_factors,
    interpolate_factors,
    interpolate_rows,
    places_shown,
    snap_places,
)

from .paths import (
    ConePath,
    CovarianceRun,
    clip_path,
    cone_coordinates,
    cone_height,
    covariance_runs,
    departures,
    group_by_ending,
    path_of,
    shapes_of_trace_one,
)


@dataclass(frozen=True)
class PathAnimation:
    """Paths at the times of a movie.

    Attributes:
        times: the times of the frames.
        paths: the paths as drawn by the panels.
        places: points of all paths, (frames, paths, 3), or (frames, paths, 2) in the
            disc.
        left: the frame at which each path leaves the picture; the number of frames if
            it never does.
        height: the height of the picture; infinite for the disc.
        note: a note on what is drawn between stored frames.
    """

    times: np.ndarray
    paths: list[ConePath]
    places: np.ndarray
    left: np.ndarray
    height: float
    note: str

    def count(self, frame: int) -> list[str]:
        """Headline notes: how many runs have ended, or how the only run ended."""
        t, total, last = self.times[frame], len(self.paths), self.times.size - 1
        if total == 1:
            return [ending_headline(self.paths[0].ending)] if frame == last else []
        return [
            f"{mark.name}: {sum(p.ending.stop_time <= t for p in group)} of {total}"
            for mark, group in group_by_ending(self.paths).items()
            if group[0].ending.status.row.leaves or frame == last
        ]

    def arrows(self) -> np.ndarray:
        """Arrows (paths, 2, 3) where paths leave the picture; NaN if they do not."""
        arrows = np.full((len(self.paths), 2, 3), np.nan)
        indices = np.flatnonzero(self.left < self.times.size)
        if indices.size:
            cut = [clip_path(self.paths[i].rows, self.height) for i in indices]
            feet, ways = departures(cut, self.height)
            arrows[indices] = np.stack([feet, feet + ways], axis=1)
        return arrows

    def trails(self, frame: int, length: int | None) -> list[np.ndarray]:
        """The last `length` steps of every path, (k, 3) each; if None, all steps."""
        first = 0 if length is None else max(frame - length, 0)
        return list(self.places[first : frame + 1].swapaxes(0, 1))


def animate_paths(dataset: xr.Dataset, film: Film, panel: str) -> PathAnimation:
    """The paths of a dataset at the times of a movie, interpolated between frames.

    A step in which a visible path moves too far is not interpolated: all paths then
    stay at the earlier frame.

    Raises:
        InvalidInputError: as raised by the panels `cone` and `disc`.
    """
    movers = covariance_runs(dataset, panel)
    paths = [path_of(mover) for mover in movers]
    if panel == "cone":
        return _path_animation(movers, paths, cone_height(paths), film)
    paths, _ = shapes_of_trace_one(paths)
    shapes = [_normalise_trace(mover) for mover in movers]
    march = _path_animation([s for s in shapes if s.times.size], paths, np.inf, film)
    return replace(march, places=march.places[..., :2] / march.places[..., 2:])


def _path_animation(
    movers: list[CovarianceRun], paths: list[ConePath], height: float, film: Film
) -> PathAnimation:
    """Animation of runs and their paths in the cone, cut off at trace `height`."""
    stored_times = np.unique(np.concatenate([mover.times for mover in movers]))
    movers = [_trim_to_end(mover) for mover in movers]
    far = [_far_steps(mover, stored_times, height) for mover in movers]
    is_near = ~np.logical_or.reduce(far)
    stored_places, note = places_shown(is_near, film)
    times = interpolate_rows(stored_times, stored_places)
    places = np.stack([_cone_points(mover, times) for mover in movers], axis=1)
    is_over = places[..., 2] > height
    left = np.where(is_over.any(axis=0), is_over.argmax(axis=0), times.size)
    for index in np.flatnonzero(left < times.size):
        places[left[index] :, index] = clip_path(paths[index].rows, height)[-1, :-1]
    suffix = "" if is_near.all() or not note else "; lines join them"
    return PathAnimation(times, paths, places, left, height, f"{note}{suffix}")


def _normalise_trace(mover: CovarianceRun) -> CovarianceRun:
    """The run scaled to trace one, without the frames in which the trace is zero."""
    sizes = sizes_of(mover.factor)
    is_there = sizes > 0
    factor = mover.factor[is_there] / sizes[is_there, None, None]
    return replace(mover, times=mover.times[is_there], factor=factor)


def _trim_to_end(mover: CovarianceRun) -> CovarianceRun:
    """The run without the frames after its end, which repeat its last state."""
    if not np.isfinite(mover.ending.stop_time):
        return mover
    times = np.minimum(mover.times, mover.ending.stop_time)
    is_new = np.diff(times, prepend=-np.inf) > 0
    return replace(mover, times=times[is_new], factor=mover.factor[is_new])


def _far_steps(
    mover: CovarianceRun, stored_times: np.ndarray, height: float
) -> np.ndarray:
    """Mask of the steps in view that are too large to interpolate."""
    traces = np.maximum.accumulate(sizes_of(mover.factor) ** 2)
    is_far = ~interpolable_factors(mover.factor) & (traces[:-1] <= height)
    is_far = np.concatenate([[False], is_far, [False]])  # False before and after a run
    return is_far[np.searchsorted(mover.times, stored_times[:-1], side="right")]


def _cone_points(mover: CovarianceRun, times: np.ndarray) -> np.ndarray:
    """Points of a run in the cone, (times, 3); large steps are not interpolated."""
    frames = np.arange(mover.times.size, dtype=np.float64)
    places = snap_places(
        np.interp(times, mover.times, frames), interpolable_factors(mover.factor)
    )
    return cone_coordinates(covariance(interpolate_factors(mover.factor, places)))
