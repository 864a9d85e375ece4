"""The times of a movie's frames: stored frames, and interpolation between them."""

from dataclasses import replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from meanfield.plotting._writing.film import Film

from .data import Cloud, Swarm, Track
from .observables import even_frames, is_rounding, moments, sizes_of

# States are interpolated linearly between two stored frames if (1) the sizes of the two
# frames have a ratio of at most `_MAX_RATIO`, and (2) the size halfway between them is
# within a factor `_MAX_BEND` of the geometric mean of the two sizes, which rules out
# large rotations. An interpolated cloud is then too small by at most 3 %, which is
# invisible. Sizes of Gaussians and sizes in headlines are interpolated from the stored
# sizes instead.
_MAX_RATIO, _MAX_BEND = 1.25, 1.03


def places_shown(is_near: np.ndarray, film: Film) -> tuple[np.ndarray, str]:
    """Fractional indices of stored frames, such as 2.5 between 2 and 3, and a note.

    They are integers if there are enough stored frames, and in steps that must not be
    interpolated.

    Args:
        is_near: whether each step may be interpolated linearly, (stored - 1).
        film: options of the movie.
    """
    n_stored = is_near.size + 1
    count = film.count(n_stored)
    places = np.linspace(0.0, n_stored - 1.0, count)
    if count <= n_stored:
        places = even_frames(n_stored, count).astype(np.float64)
    return snap_places(places, is_near), _straight_note(count, is_near)


def frames_shown(n_stored: int, film: Film) -> tuple[np.ndarray, str]:
    """Indices of stored frames, repeated if there are too few, and a note on that."""
    count = film.count(n_stored)
    if count <= n_stored:
        return even_frames(n_stored, count), ""
    note = f"{n_stored} stored frames, each as long as the next"
    return np.arange(count) * n_stored // count, note


def snap_places(places: np.ndarray, is_near: np.ndarray) -> np.ndarray:
    """Rounds indices down to a stored frame in steps that must not be interpolated.

    Args:
        places: fractional indices of stored frames.
        is_near: whether each step may be interpolated linearly, (stored - 1).
    """
    if not is_near.size:
        return places
    steps = np.minimum(np.floor(places).astype(np.intp), is_near.size - 1)
    return np.where(is_near[steps], places, np.floor(places))


def interpolable_steps(cloud: Cloud) -> np.ndarray:
    """Whether each step between frames may be interpolated linearly: (frames - 1).

    A cloud whose spread is only rounding error is treated as a point.
    """
    mean, factor = moments(cloud.state)
    spread = np.where(is_rounding(mean, factor)[:, None, None], 0.0, factor)
    is_near = interpolable_factors(spread)
    if cloud.closure is None:
        return is_near
    # A Gaussian closure that has ended is NaN; this must not prevent interpolation.
    closure = cloud.closure
    is_there = np.isfinite(closure.mean[:, 0])
    is_gone = ~(is_there[:-1] & is_there[1:])
    return is_near & (interpolable_factors(closure.factor) | is_gone)


def interpolable_factors(factor: np.ndarray) -> np.ndarray:
    """Like `interpolable_steps`, for covariance factors of shape (frames, d, r)."""
    sizes = sizes_of(factor)
    middles = sizes_of((factor[:-1] + factor[1:]) / 2)
    low, high = np.minimum(sizes[:-1], sizes[1:]), np.maximum(sizes[:-1], sizes[1:])
    straight = np.sqrt(low * high)
    is_straight = (middles <= _MAX_BEND * straight) & (straight <= _MAX_BEND * middles)
    return (high <= _MAX_RATIO * low) & is_straight


def interpolate_sizes(sizes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Sizes at fractional frame indices, interpolated from sizes of stored frames.

    Their logarithms are interpolated by a monotone cubic, so that exponential growth is
    exact, and each size lies between its two neighbours.
    """
    if sizes.size == 1:
        return sizes[np.zeros(places.size, dtype=np.intp)]
    left = sizes[np.floor(places).astype(np.intp)]
    logs = np.log(np.maximum(sizes, np.finfo(sizes.dtype).tiny))
    curve = np.exp(PchipInterpolator(np.arange(sizes.size), logs)(places))
    return np.where((places == np.floor(places)) | (left == 0), left, curve)


def _straight_note(n_frames: int, is_near: np.ndarray) -> str:
    """A note on linear interpolation, if a movie shows more frames than are stored.

    Args:
        n_frames: number of frames of the movie.
        is_near: whether each step between stored frames is interpolated linearly.
    """
    n_stored = is_near.size + 1
    if n_frames <= n_stored:
        return ""
    if is_near.all():
        return f"{n_stored} stored frames, straight lines between them"
    if not is_near.any():
        return f"{n_stored} stored frames, each held until the next"
    return f"{n_stored} stored frames: straight lines between near ones, others held"


def interpolate_run(cloud: Cloud, places: np.ndarray) -> Cloud:
    """A run at fractional frame indices, by linear interpolation."""
    state, closure = cloud.state, cloud.closure
    if isinstance(state, Swarm):
        state = state._replace(x=interpolate_rows(state.x, places))
    else:
        factor = interpolate_factors(state.factor, places)
        state = Track(interpolate_rows(state.mean, places), factor)
    if closure is not None:
        closure = Track(*(interpolate_rows(part, places) for part in closure))
    times = interpolate_rows(cloud.times, places)
    return replace(cloud, times=times, state=state, closure=closure)


def interpolate_factors(factor: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Finite factors (frames, d, r) at fractional indices, with interpolated sizes.

    Factors are interpolated linearly and then rescaled, since a linear path between
    rotated factors would shrink halfway.
    """
    straight = interpolate_rows(factor, places)
    sizes = interpolate_sizes(sizes_of(factor), places)
    shrunk = sizes_of(straight)
    return straight * (sizes / np.where(shrunk > 0, shrunk, 1.0))[:, None, None]


def interpolate_rows(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows at fractional indices, by linear interpolation.

    At integer indices, a neighbouring row that is not finite has no influence.
    """
    left = np.floor(places).astype(np.intp)
    share = (places - left).reshape(-1, *[1] * (array.ndim - 1))
    right = np.minimum(left + 1, len(array) - 1)
    return np.where(
        share == 0, array[left], (1 - share) * array[left] + share * array[right]
    )
