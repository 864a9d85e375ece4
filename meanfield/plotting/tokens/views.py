"""How a cloud is brought to the page: its projection, its limits, its ellipses."""

from typing import NamedTuple

import numpy as np

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.text import figures
from meanfield.plotting.reading.data import Cloud, Swarm, Track
from meanfield.plotting.reading.observables import (
    finite,
    moments,
    principal_axes,
    sizes_of,
)

# The view of a cloud that blows up holds its frames within so many initial radii;
# that of a movie follows one that grows beyond them, and stands still as one that blows
# up leaves it.
_CROP, _STILL = 30.0, 5.0
_FOLLOWS = "the view follows the cloud: mind the scale"
_ROOMY = 1.4  # of the largest frame, beyond which a view follows words, to be read
_OUTLYING = 1.6  # of the view, by which outliers may widen it
# The view makes room for a closure up to this many radii of the tokens.
_STRAY = 3.0
# Paths are cut this many half-widths from the centre: far outside, but finite.
_BEYOND = 8.0
_DRIFTS = 1e-3  # of the largest radius, from which on a drift of the mean is told of
# A view narrower than this share of its distance from zero would show rounding.
_ROUNDED = 1e-12
# Ellipses are drawn at two standard deviations.
N_SIGMA = 2.0


class Projection(NamedTuple):
    """A cloud in at most `k` coordinates, the names of its axes, and a note.

    Main axes hold `shares` of the variance, in which the drift of the mean counts: the
    paths of a picture show it, a frame of a movie does not.
    """

    cloud: Cloud
    names: tuple[str, ...]
    note: str
    shares: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the axes, with what share of the variance main ones hold."""
        if not self.shares:
            return self.names
        pairs = zip(self.names, self.shares, strict=True)
        return tuple(f"{n}  ({100 * share:.3g} % of variance)" for n, share in pairs)


class Window(NamedTuple):
    """A cube of the page: centre, half-width, and a note where it leaves things out."""

    centre: np.ndarray
    half_width: float
    note: str


def projection(cloud: Cloud, k: int) -> Projection:
    """The cloud itself if $d <= k$, else its image on its `k` main axes."""
    d = cloud.dimension
    if d <= k:
        names = tuple(f"$x_{{{i + 1}}}$" for i in range(d)) if d > 1 else ("$x$",)
        return Projection(cloud, names, "")
    axes, shares = principal_axes(cloud, k)
    axes = axes * (shares > 0)  # where nothing moves, rounding is not shown either
    origin = moments(cloud.at(np.array([0])).state).mean[0]
    names = tuple(f"PC {i + 1}" for i in range(k))
    mean = moments(cloud.state).mean
    way = np.linalg.norm(mean - mean[0], axis=-1).max()  # seen beside the cloud?
    drift = ", drift included" if way > _DRIFTS * rms_radii(cloud).max() else ""
    note = f"main {k} of {d} dimensions, pooled over time{drift}"
    seen = cloud.seen_along(axes, origin)
    return Projection(seen, names, note, tuple(map(float, shares)))


def radii(cloud: Cloud) -> np.ndarray:
    """The RMS distances from the initial mean, by frame."""
    mean, factor = moments(cloud.state)
    drift = mean - mean[0]
    return np.sqrt((factor**2).sum(axis=(-2, -1)) + (drift**2).sum(axis=-1))


def rms_radii(cloud: Cloud) -> np.ndarray:
    r"""$\sqrt{\operatorname{tr}\Sigma}$ by frame."""
    return sizes_of(moments(cloud.state).factor)


def visible_frames(cloud: Cloud) -> np.ndarray:
    """The frames that a picture shows: all, or of a cloud that escapes the first."""
    if cloud.ending.status.row.leaves:
        return _near_frames(cloud, _CROP)
    return np.arange(cloud.times.size)


def _near_frames(cloud: Cloud, crop: float) -> np.ndarray:
    """The frames in which the cloud is within so many radii; always the first."""
    distances = radii(cloud)
    start = moments(cloud.at(np.array([0])).state).mean[0]
    reference = max(distances[0], np.abs(start).max() if distances[0] == 0 else 0.0)
    if reference == 0:
        return np.arange(distances.size)
    return np.flatnonzero(distances <= crop * reference)


def window(cloud: Cloud) -> Window:
    """The smallest square that shows every visible frame, with a margin."""
    frames = visible_frames(cloud)
    low, high = _extent(cloud.at(frames))
    centre, half = (low + high) / 2, float((high - low).max() / 2)
    size = max(float(np.abs(centre).max()), float(half))
    if half <= _ROUNDED * size:
        half = max(size, 1.0) / 2
    return Window(centre, 1.08 * half, _growth_note(cloud, frames.size))


def _growth_note(cloud: Cloud, n_visible: int) -> str:
    """Where the view ends, or why its start is a dot."""
    sizes = radii(cloud)
    if n_visible < cloud.times.size:
        reach = figures(float(sizes.max()))
        until = cloud.times[n_visible - 1]
        return (
            f"the view holds the cloud up to t = {until:.4g}; it goes on to an RMS "
            f"radius of {reach}"
        )
    if not sizes.max() > _CROP * sizes[0] > 0:
        return ""
    spreads = rms_radii(cloud)
    if spreads.max() > _CROP * spreads[0]:
        return (
            "as drawn, the RMS radius of the cloud grows from "
            f"{figures(spreads[0])} to {figures(spreads.max())}"
        )
    return (
        f"as drawn, the cloud moves {sizes.max():.3g} away; its RMS radius goes from "
        f"{spreads[0]:.2g} to {spreads[-1]:.2g}"
    )


def _extent(cloud: Cloud) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest coordinates of tokens and of ellipses."""
    tracks = _seen_tracks(cloud)
    points = []
    if isinstance(cloud.state, Swarm):
        points.append(cloud.state.x.reshape(-1, cloud.dimension))
    for track in tracks:
        reach = N_SIGMA * np.sqrt((track.factor**2).sum(axis=-1))
        points += [track.mean - reach, track.mean + reach]
    cells = np.concatenate(points)
    cells = cells[np.isfinite(cells).all(axis=1)]
    return cells.min(axis=0), cells.max(axis=0)


def _seen_tracks(cloud: Cloud) -> list[Track]:
    """The Gaussians the view makes room for: not a closure that leaves its cloud."""
    track = moments(cloud.state)
    if cloud.closure is None:
        return [track]
    mean, factor = cloud.closure
    reach = np.abs(mean - track.mean[0]).max(axis=-1)
    reach = reach + np.sqrt((factor**2).sum(axis=(-2, -1)))
    stays = reach <= _STRAY * radii(cloud).max()
    return [track, Track(np.where(stays[:, None], mean, np.nan), factor)]


def within(points: np.ndarray, view: Window) -> np.ndarray:
    """The points, those far outside the view drawn in along their ray to its centre."""
    offset = points - view.centre
    largest = np.abs(offset).max(axis=-1, keepdims=True)
    reach = _BEYOND * view.half_width
    return view.centre + offset * (reach / np.maximum(largest, reach))


def limits_seen(
    view: Window, room: np.ndarray, look: Look
) -> tuple[np.ndarray, np.ndarray]:
    """The lower left and upper right corners of what axes of the size `room` show.

    That is the view, widened to the shape of the axes, or the limits that are chosen.
    Where one of them is, the other axis has the same scale.
    """
    chosen = {k: np.array(v) for k, v in enumerate((look.xlim, look.ylim)) if v}
    unit = view.half_width / room.min()
    for axis, limits in chosen.items():
        unit = np.diff(limits)[0] / 2 / room[axis]
    low, high = view.centre - unit * room, view.centre + unit * room
    for axis, limits in chosen.items():
        low[axis], high[axis] = limits
    return low, high


def ellipses(track: Track) -> np.ndarray:
    r"""Outlines $m + 2Yu$, $u$ a unit vector, of plane Gaussians: (time, 121, 2)."""
    angle = np.linspace(0.0, 2 * np.pi, 121)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return track.mean[:, None, :] + N_SIGMA * circle @ _root(track.factor)


def great_circles(track: Track) -> np.ndarray:
    """The three main sections of the ellipsoids of a Gaussian in space.

    Returns:
        Outlines of shape (time, 3, 121, 3).
    """
    angle = np.linspace(0.0, 2 * np.pi, 121)
    cosine, sine, zero = np.cos(angle), np.sin(angle), np.zeros_like(angle)
    circles = np.stack(
        [
            np.stack([cosine, sine, zero], axis=-1),
            np.stack([zero, cosine, sine], axis=-1),
            np.stack([sine, zero, cosine], axis=-1),
        ]
    )
    spheres = N_SIGMA * circles @ _root(track.factor)[:, None]
    return track.mean[:, None, None, :] + spheres


def outlines(track: Track) -> np.ndarray:
    """Ellipses of plane Gaussians, main sections of others: (time, k, 121, d)."""
    if track.mean.shape[-1] == 2:
        return ellipses(track)[:, None]
    return great_circles(track)


def _root(factor: np.ndarray) -> np.ndarray:
    r"""Rows $\sqrt{\lambda_k} u_k^T$: half axes of $YY^T$, singular or not."""
    d, r = factor.shape[-2:]
    wide = np.concatenate([factor, np.zeros((*factor.shape[:-1], max(d - r, 0)))], -1)
    whole = finite(factor)[..., None, None]
    u, s, _ = np.linalg.svd(np.where(whole, wide, 0.0), full_matrices=False)
    return np.where(whole, np.swapaxes(u * s[..., None, :], -1, -2), np.nan)


def robust_windows(cloud: Cloud) -> tuple[list[Window], str]:
    """The square of each frame: one for all, or following a cloud that grows too far.

    It holds ellipses and all tokens, but for outliers: where all of them would take
    over `_OUTLYING` times the room, one in a hundred at either end of each axis. A
    cloud that blows up leaves it, and words that drift are followed.
    """
    low, high, beyond = _robust_extents(cloud)
    count, moves = cloud.times.size, ""
    if cloud.ending.status.row.leaves:
        near = _near_frames(cloud, _STILL)
        low, high = low[near], high[near]
        moves = "" if near.size == count else "the cloud leaves the view"
    elif _near_frames(cloud, _CROP).size < count or _words_drift(cloud, low, high):
        moves = _FOLLOWS
    if moves != _FOLLOWS:
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
    windows = _squares(low, high)
    notes = "; ".join(note for note in (beyond, moves) if note)
    return windows * (count // len(windows)), notes


def _words_drift(cloud: Cloud, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether words, in boxes (n, d), move so far that one for all is mostly empty."""
    if cloud.words is None:
        return False
    whole = (high.max(axis=0) - low.min(axis=0)).max()
    return bool(whole > _ROOMY * (high - low).max())


def _squares(low: np.ndarray, high: np.ndarray) -> list[Window]:
    """Squares around boxes (n, d), with a margin, that never shrink."""
    centres = (low + high) / 2
    halves = np.maximum.accumulate((high - low).max(axis=1) / 2)
    floor = max(float(np.abs(centres).max()), 1.0) / 2
    halves = 1.12 * np.where(halves > 0, halves, floor)
    return [Window(c, float(h), "") for c, h in zip(centres, halves, strict=True)]


def _robust_extents(cloud: Cloud) -> tuple[np.ndarray, np.ndarray, str]:
    """Lowest and highest coordinates by frame, (time, d), and what lies beyond them."""
    tracks, beyond = _seen_tracks(cloud), ""
    lows, highs = [], []
    for track in tracks:
        reach = N_SIGMA * np.sqrt((track.factor**2).sum(axis=-1))
        lows.append(track.mean - reach)
        highs.append(track.mean + reach)
    if isinstance(cloud.state, Swarm):
        x = cloud.state.x
        low, high = np.quantile(x, [0.01, 0.99], axis=1)
        least, most = x.min(axis=1), x.max(axis=1)
        near = (most - least).max(axis=1) <= _OUTLYING * (high - low).max(axis=1)
        lows.append(np.where(near[:, None], least, low))
        highs.append(np.where(near[:, None], most, high))
        beyond = "" if near.all() else "the farthest tokens are outside the view"
    # A closure that has ended is NaN, which fmin and fmax pass over.
    return np.fmin.reduce(lows), np.fmax.reduce(highs), beyond
