"""Projection of a cloud onto a picture, axis limits, and outlines of ellipses."""

from typing import NamedTuple

import numpy as np

from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.text import format_number
from meanfield.plotting.reading.data import Cloud, Swarm, Track
from meanfield.plotting.reading.observables import (
    finite,
    moments,
    principal_axes,
    sizes_of,
)

# View sizes are multiples of the cloud's initial radius. If the cloud blows up, a panel
# shows it up to size `_CROP`, and the fixed view of a movie has size `_MOVIE_CROP`.
# Otherwise the view of a movie follows a cloud that grows beyond `_CROP`.
_CROP, _MOVIE_CROP = 30.0, 5.0
_FOLLOWS = "the view follows the cloud: mind the scale"
_FLATTEST = 0.3  # smallest fraction of a box's longest side
_ROOMY = 1.4  # the view follows words if a fixed view would be larger by this factor
_OUTLYING = 1.6  # largest factor by which outliers may widen the view
# A Gaussian closure does not widen the view beyond `_STRAY` radii of the tokens.
_STRAY = 3.0
# Paths are clipped at `_CLIP_RADIUS` half-widths from the centre, far outside the view.
_CLIP_RADIUS = 8.0
_DRIFTS = 1e-3  # drifts of the mean above this share of the largest radius are noted
# Minimum width of a view relative to its distance from zero; it hides rounding errors.
_MIN_WIDTH = 1e-12
# Ellipses are drawn at two standard deviations.
N_SIGMA = 2.0


class Projection(NamedTuple):
    """A cloud in at most `k` coordinates, the names of its axes, and a note.

    `shares` are those of the spread along main axes; all frames count equally. They
    include the drift of the mean, which paths in a panel show, but not movies.
    """

    cloud: Cloud
    names: tuple[str, ...]
    note: str
    shares: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the axes; for a main axis, with its share of the spread."""
        if not self.shares:
            return self.names
        pairs = zip(self.names, self.shares, strict=True)
        return tuple(f"{n}  ({100 * share:.3g} % of spread)" for n, share in pairs)


class Window(NamedTuple):
    """A square or box: centre, half-width, note on what is outside, sides of a box."""

    centre: np.ndarray
    half_width: float
    note: str
    shape: tuple[float, ...] = (1.0, 1.0, 1.0)


def projection(cloud: Cloud, k: int) -> Projection:
    """The cloud itself if $d <= k$, otherwise its projection onto `k` main axes."""
    d = cloud.dimension
    if d <= k:
        names = tuple(f"$x_{{{i + 1}}}$" for i in range(d)) if d > 1 else ("$x$",)
        return Projection(cloud, cloud.names or names, "")
    axes, shares = principal_axes(cloud, k)
    axes = axes * (shares > 0)  # an axis without variance would show rounding errors
    origin = moments(cloud.take(np.array([0])).state).mean[0]
    names = tuple(f"PC {i + 1}" for i in range(k))
    mean = moments(cloud.state).mean
    way = np.linalg.norm(mean - mean[0], axis=-1).max()  # largest drift of the mean
    drift = ", drift included" if way > _DRIFTS * rms_radii(cloud).max() else ""
    note = f"main {k} of {d} dimensions, pooled over time{drift}"
    image = cloud.project(axes, origin)
    return Projection(image, names, note, tuple(map(float, shares)))


def radii(cloud: Cloud) -> np.ndarray:
    """The RMS distance of the tokens from the initial mean, in each frame."""
    mean, factor = moments(cloud.state)
    drift = mean - mean[0]
    return np.sqrt((factor**2).sum(axis=(-2, -1)) + (drift**2).sum(axis=-1))


def rms_radii(cloud: Cloud) -> np.ndarray:
    r"""The RMS radius $\sqrt{\operatorname{tr}\Sigma}$ of each frame."""
    return sizes_of(moments(cloud.state).factor)


def visible_frames(cloud: Cloud) -> np.ndarray:
    """The frames that a panel shows; if a cloud escapes, only those within `_CROP`."""
    if cloud.ending.status.row.leaves:
        return _crop_frames(cloud, _CROP)
    return np.arange(cloud.times.size)


def _crop_frames(cloud: Cloud, crop: float) -> np.ndarray:
    """The frames in which the cloud is within `crop` initial radii."""
    distances = radii(cloud)
    start = moments(cloud.take(np.array([0])).state).mean[0]
    reference = max(distances[0], np.abs(start).max() if distances[0] == 0 else 0.0)
    if reference == 0:
        return np.arange(distances.size)
    return np.flatnonzero(distances <= crop * reference)


def window(cloud: Cloud) -> Window:
    """The smallest square that contains all visible frames, with a margin."""
    frames = visible_frames(cloud)
    low, high = _extent(cloud.take(frames))
    centre, half = (low + high) / 2, float((high - low).max() / 2)
    shape = np.maximum((high - low) / (2 * half or 1), _FLATTEST)
    size = max(float(np.abs(centre).max()), float(half))
    if half <= _MIN_WIDTH * size:
        half = max(size, 1.0) / 2
    return Window(centre, 1.08 * half, _growth_note(cloud, frames.size), tuple(shape))


def _growth_note(cloud: Cloud, n_visible: int) -> str:
    """A note on frames outside the view, or on a cloud that looks tiny at first."""
    sizes = radii(cloud)
    if n_visible < cloud.times.size:
        reach = format_number(float(sizes.max()))
        end_time = cloud.times[n_visible - 1]
        return (
            f"the view holds the cloud up to t = {end_time:.4g}; it goes on to an RMS "
            f"radius of {reach}"
        )
    if not sizes.max() > _CROP * sizes[0] > 0:
        return ""
    spreads = rms_radii(cloud)
    if spreads.max() > _CROP * spreads[0]:
        return (
            "as drawn, the RMS radius of the cloud grows from "
            f"{format_number(spreads[0])} to {format_number(spreads.max())}"
        )
    return (
        f"as drawn, the cloud moves {sizes.max():.3g} away; its RMS radius goes from "
        f"{spreads[0]:.2g} to {spreads[-1]:.2g}"
    )


def _extent(cloud: Cloud) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest coordinates of tokens and of ellipses."""
    tracks = _visible_tracks(cloud) if cloud.is_flat else []
    points = []
    if isinstance(cloud.state, Swarm):
        points.append(cloud.state.x.reshape(-1, cloud.dimension))
    if cloud.radius is not None:  # the whole sphere is drawn
        points.append(cloud.radius * np.outer((-1.0, 1.0), np.ones(cloud.dimension)))
    for track in tracks:
        reach = N_SIGMA * np.sqrt((track.factor**2).sum(axis=-1))
        points += [track.mean - reach, track.mean + reach]
    cells = np.concatenate(points)
    cells = cells[np.isfinite(cells).all(axis=1)]
    return cells.min(axis=0), cells.max(axis=0)


def _visible_tracks(cloud: Cloud) -> list[Track]:
    """The Gaussians that the view should contain; a closure far from tokens is NaN."""
    track = moments(cloud.state)
    if cloud.closure is None:
        return [track]
    mean, factor = cloud.closure
    reach = np.abs(mean - track.mean[0]).max(axis=-1)
    reach = reach + np.sqrt((factor**2).sum(axis=(-2, -1)))
    stays = reach <= _STRAY * radii(cloud).max()
    return [track, Track(np.where(stays[:, None], mean, np.nan), factor)]


def clip_points(points: np.ndarray, view: Window) -> np.ndarray:
    """The points, with those far outside the view moved towards its centre."""
    offset = points - view.centre
    largest = np.abs(offset).max(axis=-1, keepdims=True)
    reach = _CLIP_RADIUS * view.half_width
    return view.centre + offset * (reach / np.maximum(largest, reach))


def view_limits(
    view: Window, room: np.ndarray, look: Look
) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper limits of axes of size `room`.

    Limits in the look take precedence; without them, the view is widened to the shape
    of the axes. If the look sets one axis only, the other axis has the same scale.
    """
    choices = {k: np.array(v) for k, v in enumerate((look.xlim, look.ylim)) if v}
    unit = view.half_width / room.min()
    for axis, limits in choices.items():
        unit = np.diff(limits)[0] / 2 / room[axis]
    low, high = view.centre - unit * room, view.centre + unit * room
    for axis, limits in choices.items():
        low[axis], high[axis] = limits
    return low, high


def ellipses(track: Track) -> np.ndarray:
    r"""Outlines $m + 2Yu$ of plane Gaussians, for unit vectors $u$: (time, 121, 2)."""
    angle = np.linspace(0.0, 2 * np.pi, 121)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return track.mean[:, None, :] + N_SIGMA * circle @ _root(track.factor)


def great_circles(track: Track) -> np.ndarray:
    """The three principal sections of ellipsoids in space, (time, 3, 121, 3)."""
    angle = np.linspace(0.0, 2 * np.pi, 121)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=-1)
    circles = np.stack([np.roll(circle, axis, axis=-1) for axis in range(3)])
    spheres = N_SIGMA * circles @ _root(track.factor)[:, None]
    return track.mean[:, None, None, :] + spheres


def outlines(track: Track) -> np.ndarray:
    """Ellipses in the plane, principal sections in space: (time, k, 121, d)."""
    if track.mean.shape[-1] == 2:
        return ellipses(track)[:, None]
    return great_circles(track)


def _root(factor: np.ndarray) -> np.ndarray:
    r"""Rows $\sqrt{\lambda_k} u_k^T$: half axes of $YY^T$, which may be singular."""
    d, r = factor.shape[-2:]
    wide = np.concatenate([factor, np.zeros((*factor.shape[:-1], max(d - r, 0)))], -1)
    whole = finite(factor)[..., None, None]
    u, s, _ = np.linalg.svd(np.where(whole, wide, 0.0), full_matrices=False)
    return np.where(whole, np.swapaxes(u * s[..., None, :], -1, -2), np.nan)


def robust_windows(cloud: Cloud) -> tuple[list[Window], str]:
    """The view of each frame of a movie, and a note.

    The view is fixed, unless the cloud grows too much, or consists of words and drifts;
    then it follows. It contains the ellipses and all tokens, except the outermost 1 %
    at either end of each axis if these would make the view more than `_OUTLYING` times
    as wide. A cloud that blows up leaves the view.
    """
    if cloud.radius is not None:
        return [window(cloud)] * cloud.times.size, ""
    low, high, outliers = _robust_extents(cloud)
    count, moves = cloud.times.size, ""
    if cloud.ending.status.row.leaves:
        frames = _crop_frames(cloud, _MOVIE_CROP)
        low, high = low[frames], high[frames]
        moves = "" if frames.size == count else "the cloud leaves the view"
    elif _crop_frames(cloud, _CROP).size < count or _has_word_drift(cloud, low, high):
        moves = _FOLLOWS
    if moves != _FOLLOWS:
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
    windows = _squares(low, high)
    notes = "; ".join(note for note in (outliers, moves) if note)
    return windows * (count // len(windows)), notes


def _has_word_drift(cloud: Cloud, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether words drift so far that a fixed view would be too large."""
    if cloud.words is None:
        return False
    whole = (high.max(axis=0) - low.min(axis=0)).max()
    return bool(whole > _ROOMY * (high - low).max())


def _squares(low: np.ndarray, high: np.ndarray) -> list[Window]:
    """Square views around boxes (n, d), with a margin; their size never decreases."""
    centres = (low + high) / 2
    halves = np.maximum.accumulate((high - low).max(axis=1) / 2)
    floor = max(float(np.abs(centres).max()), 1.0) / 2
    halves = 1.12 * np.where(halves > 0, halves, floor)
    return [Window(c, float(h), "") for c, h in zip(centres, halves, strict=True)]


def _robust_extents(cloud: Cloud) -> tuple[np.ndarray, np.ndarray, str]:
    """Lower and upper limits of each frame, (time, d), and a note on outliers."""
    tracks, outliers = _visible_tracks(cloud), ""
    lows, highs = [], []
    for track in tracks:
        reach = N_SIGMA * np.sqrt((track.factor**2).sum(axis=-1))
        lows.append(track.mean - reach)
        highs.append(track.mean + reach)
    if isinstance(cloud.state, Swarm):
        x = cloud.state.x
        low, high = np.quantile(x, [0.01, 0.99], axis=1)
        x_min, x_max = x.min(axis=1), x.max(axis=1)
        is_tight = (x_max - x_min).max(axis=1) <= _OUTLYING * (high - low).max(axis=1)
        lows.append(np.where(is_tight[:, None], x_min, low))
        highs.append(np.where(is_tight[:, None], x_max, high))
        outliers = "" if is_tight.all() else "the farthest tokens are outside the view"
    # A Gaussian closure that has ended is NaN, which fmin and fmax ignore.
    return np.fmin.reduce(lows), np.fmax.reduce(highs), outliers
