"""The pace of a movie: which moments of a run its frames show."""

from dataclasses import replace

import numpy as np

from meanfield.plotting._runs.data import Cloud, Swarm, Track
from meanfield.plotting._runs.observables import even_frames
from meanfield.plotting._writing.film import Film


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


def straight_note(stored: int, shown: int) -> str:
    """What a movie says that moves straight, as it shows more frames than stored."""
    straight = f"{stored} stored frames, straight lines between them"
    return straight if shown > stored else ""


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
