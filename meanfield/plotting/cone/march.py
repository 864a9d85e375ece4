"""Covariances on their way, all at the same times: what a movie of the cone shows."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from meanfield.plotting._figure.panels import end_words
from meanfield.plotting._writing.film import Film
from meanfield.plotting.reading.observables import covariance, sizes_of
from meanfield.plotting.reading.pace import (
    blended,
    factors_between,
    held,
    moments_shown,
    near_factors,
    straight_note,
)

from .paths import (
    ConePath,
    Moving,
    below,
    by_ending,
    cone_coordinates,
    cone_height,
    departures,
    moving,
    path_of,
    shapes_of_trace_one,
)


@dataclass(frozen=True)
class March:
    """Paths at the times of a movie.

    Attributes:
        times: of its frames.
        paths: as panels draw them.
        places: of all paths, (frames, paths, 3), or (frames, paths, 2) in the disc.
        left: the frame at which each has left the picture; their number if never.
        height: of the picture, which the disc has not.
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

    Where a path that is in the picture is not near, all stand until the next frame.

    Raises:
        InvalidInputError: as the panels `cone` and `disc` do.
    """
    movers = moving(dataset, panel)
    paths = [path_of(mover) for mover in movers]
    if panel == "cone":
        return _march(movers, paths, cone_height(paths), film)
    paths, _ = shapes_of_trace_one(paths)
    shapes = [_shape(mover) for mover in movers]
    march = _march([s for s in shapes if s.times.size], paths, np.inf, film)
    return replace(march, places=march.places[..., :2] / march.places[..., 2:])


def _march(
    movers: list[Moving], paths: list[ConePath], height: float, film: Film
) -> March:
    """Runs, and their paths, in a picture that reaches up to a trace."""
    stored = np.unique(np.concatenate([mover.times for mover in movers]))
    movers = [_until_its_end(mover) for mover in movers]
    far = [_far_steps(mover, stored, height) for mover in movers]
    is_near = ~np.logical_or.reduce(far)
    shown = moments_shown(stored.size, film)
    times = blended(stored, held(shown, is_near))
    places = np.stack([_at(mover, times) for mover in movers], axis=1)
    is_over = places[..., 2] > height
    left = np.where(is_over.any(axis=0), is_over.argmax(axis=0), times.size)
    for index in np.flatnonzero(left < times.size):
        places[left[index] :, index] = below(paths[index].rows, height)[-1, :-1]
    note = straight_note(shown.size, is_near)
    suffix = "" if is_near.all() or not note else "; lines join them"
    return March(times, paths, places, left, height, f"{note}{suffix}")


def _shape(mover: Moving) -> Moving:
    """The same, of trace one; without the frames in which it vanishes."""
    sizes = sizes_of(mover.factor)
    is_there = sizes > 0
    factor = mover.factor[is_there] / sizes[is_there, None, None]
    return replace(mover, times=mover.times[is_there], factor=factor)


def _until_its_end(mover: Moving) -> Moving:
    """The same without the frames after its end, which repeat the one at its end."""
    if not np.isfinite(mover.ending.stop_time):
        return mover
    times = np.minimum(mover.times, mover.ending.stop_time)
    is_new = np.diff(times, prepend=-np.inf) > 0
    return replace(mover, times=times[is_new], factor=mover.factor[is_new])


def _far_steps(mover: Moving, stored: np.ndarray, height: float) -> np.ndarray:
    """Whether it is in the picture and goes far, from each stored time to the next."""
    traces = np.maximum.accumulate(sizes_of(mover.factor) ** 2)
    is_far = ~near_factors(mover.factor) & (traces[:-1] <= height)
    is_far = np.concatenate([[False], is_far, [False]])  # before it begins, and after
    return is_far[np.searchsorted(mover.times, stored[:-1], side="right")]


def _at(mover: Moving, times: np.ndarray) -> np.ndarray:
    """Its points in the cone at some times, (times, 3), held where it goes far."""
    frames = np.arange(mover.times.size, dtype=np.float64)
    places = held(np.interp(times, mover.times, frames), near_factors(mover.factor))
    return cone_coordinates(covariance(factors_between(mover.factor, places)))
