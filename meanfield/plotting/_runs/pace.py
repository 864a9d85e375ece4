"""The pace of a movie: which moments of a run its frames show."""

from dataclasses import replace

import numpy as np

from meanfield.plotting._writing.film import Film

from .data import Cloud, Swarm, Track
from .observables import even_frames, moments

# Straight lines lead from one stored frame to the next where sizes differ by a smaller
# factor, and half way the size is near their geometric mean: nothing turns much.
_NEAR, _BENT = 1.25, 1.03


def moments_shown(stored: int, film: Film) -> np.ndarray:
    """Places among the stored frames, as 2.5 for the middle between the third and next.

    They are stored frames alone where there are enough of them.
    """
    count = film.count(stored)
    if count <= stored:
        return even_frames(stored, count).astype(np.float64)
    return np.linspace(0.0, stored - 1.0, count)


def frames_shown(stored: int, film: Film) -> np.ndarray:
    """Stored frames alone; each stands as long as the next where they are too few."""
    count = film.count(stored)
    if count <= stored:
        return even_frames(stored, count)
    return np.arange(count) * stored // count


def held(places: np.ndarray, is_near: np.ndarray) -> np.ndarray:
    """The places, but for those on steps that are not near: the stored frame before.

    Args:
        places: among the stored frames.
        is_near: whether a straight line may lead along a step, (stored - 1).
    """
    if not is_near.size:
        return places
    steps = np.minimum(np.floor(places).astype(np.intp), is_near.size - 1)
    return np.where(is_near[steps], places, np.floor(places))


def near_steps(cloud: Cloud) -> np.ndarray:
    """Whether straight lines may lead from each frame to the next: (frames - 1)."""
    is_near = _near(moments(cloud.state), _middles(cloud.state))
    if cloud.closure is None:
        return is_near
    # A closure that has ended is NaN, and nowhere far.
    closure = cloud.closure
    is_there = np.isfinite(closure.mean[:, 0])
    is_gone = ~(is_there[:-1] & is_there[1:])
    return is_near & (_near(closure, _middles(closure)) | is_gone)


def _middles(state: Swarm | Track) -> Track:
    """The Gaussians half way between frames, if all moves straight."""
    halves = np.arange(len(state[0]) - 1) + 0.5
    return moments(_state(state, halves))


def _near(track: Track, middles: Track) -> np.ndarray:
    sizes, between = _sizes(track), _sizes(middles)
    before, after = sizes[:-1], sizes[1:]
    low, high = np.minimum(before, after), np.maximum(before, after)
    straight = np.sqrt(low * high)
    is_straight = (between <= _BENT * straight) & (straight <= _BENT * between)
    return (high <= _NEAR * low) & is_straight


def _sizes(track: Track) -> np.ndarray:
    return np.sqrt((track.factor**2).sum(axis=(-2, -1)))


def straight_note(shown: int, is_near: np.ndarray) -> str:
    """What a movie says that moves straight, as it shows more frames than stored.

    Args:
        shown: frames of the movie.
        is_near: whether a straight line leads along each step between stored frames.
    """
    stored = is_near.size + 1
    if shown <= stored:
        return ""
    if is_near.all():
        return f"{stored} stored frames, straight lines between them"
    if not is_near.any():
        return f"{stored} stored frames, each held until the next"
    return f"{stored} stored frames: straight lines between near ones, others held"


def jump_note(stored: int, shown: int) -> str:
    """What a movie says that jumps, as it shows more frames than are stored."""
    jumps = f"{stored} stored frames, each as long as the next"
    return jumps if shown > stored else ""


def between(cloud: Cloud, places: np.ndarray) -> Cloud:
    """A run at places among its frames, moved straight from one to the next."""
    closure = cloud.closure
    return replace(
        cloud,
        times=_blended(cloud.times, places),
        state=_state(cloud.state, places),
        closure=None if closure is None else _track(closure, places),
    )


def _state(state: Swarm | Track, places: np.ndarray) -> Swarm | Track:
    if isinstance(state, Swarm):
        return state._replace(x=_blended(state.x, places))
    return _track(state, places)


def _track(track: Track, places: np.ndarray) -> Track:
    return Track(_blended(track.mean, places), _blended(track.factor, places))


def _blended(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The array between its rows; what is not finite does not reach whole places."""
    before = np.floor(places).astype(np.intp)
    share = (places - before).reshape(-1, *[1] * (array.ndim - 1))
    after = np.minimum(before + 1, len(array) - 1)
    return np.where(
        share == 0, array[before], (1 - share) * array[before] + share * array[after]
    )
