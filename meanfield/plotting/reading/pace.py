"""The pace of a movie: which moments of a run its frames show."""

from dataclasses import replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from meanfield.plotting._writing.film import Film

from .data import Cloud, Swarm, Track
from .observables import even_frames, is_rounding, moments, sizes_of

# Straight lines lead from one stored frame to the next where sizes differ by a smaller
# factor, and half way the size is near their geometric mean: nothing turns much. Tokens
# between are then nearer to one another than they were by three in a hundred at most,
# which no eye sees; sizes that are said, and those of Gaussians, come from stored ones.
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
    """Whether straight lines may lead from each frame to the next: (frames - 1).

    A cloud of which only rounding is left is a point, whatever its rounding does.
    """
    mean, factor = moments(cloud.state)
    spread = np.where(is_rounding(mean, factor)[:, None, None], 0.0, factor)
    is_near = near_factors(spread)
    if cloud.closure is None:
        return is_near
    # A closure that has ended is NaN, and nowhere far.
    closure = cloud.closure
    is_there = np.isfinite(closure.mean[:, 0])
    is_gone = ~(is_there[:-1] & is_there[1:])
    return is_near & (near_factors(closure.factor) | is_gone)


def near_factors(factor: np.ndarray) -> np.ndarray:
    """The same of Gaussians by their factors (frames, d, r) alone."""
    sizes = sizes_of(factor)
    middles = sizes_of((factor[:-1] + factor[1:]) / 2)
    low, high = np.minimum(sizes[:-1], sizes[1:]), np.maximum(sizes[:-1], sizes[1:])
    straight = np.sqrt(low * high)
    is_straight = (middles <= _BENT * straight) & (straight <= _BENT * middles)
    return (high <= _NEAR * low) & is_straight


def sizes_between(sizes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Sizes at places among stored frames, from the stored sizes alone.

    Their logarithms are on a smooth curve that rises and falls as they do, so that
    exponential growth is met exactly, and no size is beyond its two neighbours.
    """
    if sizes.size == 1:
        return sizes[np.zeros(places.size, dtype=np.intp)]
    before = sizes[np.floor(places).astype(np.intp)]
    logs = np.log(np.maximum(sizes, np.finfo(sizes.dtype).tiny))
    curve = np.exp(PchipInterpolator(np.arange(sizes.size), logs)(places))
    return np.where((places == np.floor(places)) | (before == 0), before, curve)


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
    state, closure = cloud.state, cloud.closure
    if isinstance(state, Swarm):
        state = state._replace(x=blended(state.x, places))
    else:
        factor = factors_between(state.factor, places)
        state = Track(blended(state.mean, places), factor)
    if closure is not None:
        closure = Track(*(blended(part, places) for part in closure))
    times = blended(cloud.times, places)
    return replace(cloud, times=times, state=state, closure=closure)


def factors_between(factor: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Factors at places among finite ones (frames, d, r), of the sizes between theirs.

    They go straight but for their size: what turns would shrink on the way.
    """
    straight, sizes = blended(factor, places), sizes_between(sizes_of(factor), places)
    shrunk = sizes_of(straight)
    return straight * (sizes / np.where(shrunk > 0, shrunk, 1.0))[:, None, None]


def blended(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The array between its rows; what is not finite does not reach whole places."""
    before = np.floor(places).astype(np.intp)
    share = (places - before).reshape(-1, *[1] * (array.ndim - 1))
    after = np.minimum(before + 1, len(array) - 1)
    return np.where(
        share == 0, array[before], (1 - share) * array[before] + share * array[after]
    )
