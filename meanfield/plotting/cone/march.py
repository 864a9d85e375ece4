"""Covariances on their way, all at the same times: what a movie of the cone shows."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from meanfield.plotting._figure.panels import end_words
from meanfield.plotting._runs.observables import even_frames
from meanfield.plotting._runs.pace import straight_note
from meanfield.plotting._writing.film import Film

from .paths import (
    ConePath,
    below,
    by_ending,
    cone_height,
    cone_paths,
    departures,
    shapes_of_trace_one,
)

_NEAR = 1.5  # of sizes: straight lines lead to the next frame of a path if it is nearer


@dataclass(frozen=True)
class March:
    """Paths at the times of a movie.

    Attributes:
        times: of its frames.
        paths: as panels draw them.
        places: of all paths, (frames, paths, 3), or (frames, paths, 2) in the disc.
        left: the frame at which each has left the picture; their number if never.
        height: of the picture.
        note: what small print says of frames that are not stored.
    """

    times: np.ndarray
    paths: list[ConePath]
    places: np.ndarray
    left: np.ndarray
    height: float
    note: str

    def count(self, frame: int) -> list[str]:
        """How many runs have ended so far, by their endings; how a single one did."""
        t, total, last = self.times[frame], len(self.paths), self.times.size - 1
        if total == 1:
            return [end_words(self.paths[0].ending)] if frame == last else []
        return [
            f"{status}: {sum(p.ending.stop_time <= t for p in group)} of {total}"
            for status, group in by_ending(self.paths).items()
            if status.row.leaves or frame == last
        ]

    def arrows(self) -> np.ndarray:
        """Where each path goes on beyond the picture, (paths, 2, 3), from its rim."""
        arrows = np.full((len(self.paths), 2, 3), np.nan)
        away = np.flatnonzero(self.left < self.times.size)
        if away.size:
            cut = [below(self.paths[i].rows, self.height) for i in away]
            feet, ways = departures(
                [
                    replace(self.paths[i], rows=rows)
                    for i, rows in zip(away, cut, strict=True)
                ],
                self.height,
            )
            arrows[away] = np.stack([feet, feet + ways], axis=1)
        return arrows

    def past(self, frame: int, length: int | None) -> list[np.ndarray]:
        """The last steps of every path, (k, 3) each; all if `length` is None."""
        first = 0 if length is None else max(frame - length, 0)
        return list(self.places[first : frame + 1].swapaxes(0, 1))


def marched(dataset: xr.Dataset, film: Film, panel: str) -> March:
    """The paths of a dataset at the times of a movie, straight between near frames.

    A path whose trace changes much from one frame to the next stands until then.

    Raises:
        InvalidInputError: as the panels `cone` and `disc` do.
    """
    paths, height = cone_paths(dataset, panel), 1.0
    if panel == "disc":
        paths, _ = shapes_of_trace_one(paths)
    else:
        height = cone_height(paths)
    stored = np.unique(np.concatenate([path.rows[:, -1] for path in paths]))
    count = film.count(stored.size)
    times = stored[even_frames(stored.size, count)]
    if count > stored.size:
        times = np.linspace(stored[0], stored[-1], count)
    limit = height if panel == "cone" else np.inf
    tracks = [_track(path, times, limit) for path in paths]
    places = np.stack([track for track, _ in tracks], axis=1)
    left = np.array([frame for _, frame in tracks])
    note = straight_note(count, _near_steps(paths, stored, limit))
    return March(times, paths, places, left, height, note)


def _track(path: ConePath, times: np.ndarray, height: float) -> tuple[np.ndarray, int]:
    """A path at these times, which stays where it leaves, and the frame when it has."""
    rows = path.rows.copy()
    if np.isfinite(path.ending.stop_time):
        rows[:, -1] = np.minimum(rows[:, -1], path.ending.stop_time)
        # Frames after the end repeat it: the first of them is enough.
        rows = rows[np.concatenate([[True], np.diff(rows[:, -1]) > 0])]
    points, t = rows[:, :-1], rows[:, -1]
    if points.shape[1] < 3:
        return _at(points, t, times), times.size
    is_near = _is_near(points)
    over = np.flatnonzero(points[:, 2] > height)
    if over.size == 0 or over[0] == 0:
        return _at(points, t, _held(times, t, is_near)), times.size
    foot, after = points[over[0] - 1], points[over[0]]
    share = (height - foot[2]) / (after[2] - foot[2])
    crossing = foot + share * (after - foot)
    # How soon it crosses is known if it goes straight; else it has by the next frame.
    passed = share if is_near[over[0] - 1] else 1.0
    moment = t[over[0] - 1] + passed * (t[over[0]] - t[over[0] - 1])
    points = np.concatenate([points[: over[0]], crossing[None]])
    t, is_near = np.append(t[: over[0]], moment), is_near[: over[0]]
    place = _at(points, t, _held(times, t, is_near))
    return place, int(np.searchsorted(times, moment))


def _at(points: np.ndarray, t: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(times, t, column) for column in points.T], axis=-1)


def _is_near(points: np.ndarray) -> np.ndarray:
    """Whether the size, the root of the trace, changes little along each step."""
    sizes = np.sqrt(np.maximum(points[:, 2], 0.0))
    low, high = np.minimum(sizes[:-1], sizes[1:]), np.maximum(sizes[:-1], sizes[1:])
    return high <= _NEAR * low


def _held(times: np.ndarray, t: np.ndarray, is_near: np.ndarray) -> np.ndarray:
    """The times, but for those on steps that are not near: that of the frame before."""
    if not is_near.size:
        return times
    steps = np.clip(np.searchsorted(t, times, side="right") - 1, 0, is_near.size - 1)
    is_inside = (t[steps] < times) & (times < t[steps + 1])
    return np.where(is_inside & ~is_near[steps], t[steps], times)


def _near_steps(paths: list[ConePath], stored: np.ndarray, height: float) -> np.ndarray:
    """Whether all paths in the picture go straight along each step between frames."""
    is_near = np.ones(stored.size - 1, dtype=bool)
    for path in paths:
        if path.points.shape[1] < 3:
            continue
        far = ~_is_near(path.points) & (path.points[:-1, 2] <= height)
        is_near[np.searchsorted(stored, path.rows[:-1, -1])[far]] = False
    return is_near
