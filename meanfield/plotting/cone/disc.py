"""The panel `disc`: shapes of 2 × 2 covariances, and directions of their blow-ups."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from meanfield.clusters import component_labels
from meanfield.endings import Status
from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key, dot_entry
from meanfield.plotting._figure.panels import registered_panel
from meanfield.plotting._figure.style import GREY, INK, LIMIT_COLOUR

from .ending_styles import draw_plane_paths, early_note, ending_handles, path_figure
from .paths import ConePath, cone_paths, shapes_of_trace_one
from .surface import limit_outline

# Rings mark common directions of blow-ups if at most four directions account for 90 %
# of the blow-ups. Each of these directions needs at least three runs, all of which end
# within 0.05 of it.
_N_RINGS, _MIN_RUNS, _CLOSE, _MIN_SHARE = 4, 3, 0.05, 0.9
# The axis limit is `_MARGIN` without rings, and `_ROOM` with rings, because the numbers
# of the rings need room at the rim.
_MARGIN, _ROOM = 1.16, 1.3
READING = "centre: isotropic; rim: rank one"
_RING = dot_entry("shared escape", INK, markersize=11, markerfacecolor="none")
# Blow-ups at most `_LINK` apart in the disc are linked; linked ones share a direction.
_LINK = 1e-2


class EscapeDirections(NamedTuple):
    r"""Directions of blow-up: points (k, 2) of the disc $\operatorname{tr}\Sigma = 1$.

    `counts` is the number of runs in each direction, the most frequent first. `spreads`
    is the largest distance of these runs from the direction: small for a common
    direction, large for a continuum of directions.

    Examples:
        >>> from meanfield.plotting import EscapeDirections
        >>> EscapeDirections._fields
        ('directions', 'counts', 'spreads')
    """

    directions: np.ndarray
    counts: np.ndarray
    spreads: np.ndarray


def escape_directions(dataset: xr.Dataset) -> EscapeDirections:
    r"""Clusters of the last shapes $\Sigma / \operatorname{tr}\Sigma$ before blow-ups.

    The last shape is $(a - b, 2c) / (a + b)$ at the last finite frame. Shapes at most
    0.01 apart are linked, and a direction is the mean of a connected component. The
    result is empty if no run blows up.

    Raises:
        InvalidInputError: if the dimension is not two, or $\Sigma$ always vanishes.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import escape_directions
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "d": 2, "t": 20.0}
        >>> keys |= {"A": [[2.0, 0.0], [0.0, 1.0]]}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> print(escape_directions(runs.dataset(Path("cone.zarr"))).directions)
        [[-0.3333 -0.625 ]
         [-0.3333  0.625 ]
         [ 0.8178 -0.5755]
         [ 0.8178  0.5755]]
    """
    return escapes(shapes_of_trace_one(cone_paths(dataset, "disc"))[0])


def escapes(shapes: Sequence[ConePath]) -> EscapeDirections:
    """Directions in which runs blow up, from their paths in the disc of trace one."""
    ends = [
        shape.points[-1] for shape in shapes if shape.ending.status is Status.BLOW_UP
    ]
    if not ends:
        return EscapeDirections(
            np.empty((0, 2)), np.empty(0, dtype=np.intp), np.empty(0)
        )
    points = np.array(ends)
    labels = component_labels(points, _LINK)
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, weights=x) for x in points.T], axis=-1)
    centres = sums / counts[:, None]
    spreads = np.zeros(len(counts))
    np.maximum.at(spreads, labels, np.linalg.norm(points - centres[labels], axis=1))
    order = np.argsort(-counts, kind="stable")
    return EscapeDirections(centres[order], counts[order], spreads[order])


@registered_panel("disc")
def disc(dataset: xr.Dataset) -> Figure:
    r"""Paths of $\Sigma / \operatorname{tr}\Sigma$ in a disc, coloured by ending.

    The coordinates are $(a - b, 2c) / (a + b)$: the centre is isotropic, the rim has
    rank one. Frames in which $\Sigma$ vanishes are left out. If several runs that
    blow up share their last shape, a ring with their number marks it.

    Raises:
        InvalidInputError: if the dimension is not two, if $\Sigma$ always vanishes, or
            if `limit` is invalid.
    """
    return path_figure(dataset, (5.6, 6.2), draw_disc)


def draw_disc(axes: Axes, dataset: xr.Dataset) -> Key:
    r"""Draw the disc of trace one and its paths on the given axes; set their limits.

    Returns:
        A key with legend entries, `handles`, and small print, `notes`.

    Raises:
        InvalidInputError: if the dimension is not two, if $\Sigma$ always vanishes, or
            if `limit` is invalid.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> from meanfield import runs, spec
        >>> from pathlib import Path
        >>> from meanfield.plotting import draw_disc
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "A": -1, "d": 2, "t": 1}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> key = draw_disc(Figure().add_subplot(), runs.dataset(Path("cone.zarr")))
    """
    with look_of(dataset).rc_context():
        return _draw(axes, dataset)


def _draw(axes: Axes, dataset: xr.Dataset) -> Key:
    paths, note = shapes_of_trace_one(cone_paths(dataset, "disc"))
    outline = limit_outline(dataset, 1.0)
    ends = escapes(paths)
    targets = _common_directions(ends)
    frame_disc(axes, _ROOM if len(targets.counts) else _MARGIN)
    limits = [] if outline is None else [draw_chord(axes, outline)]
    draw_plane_paths(axes, paths)
    for direction, count in zip(targets.directions, targets.counts, strict=True):
        _ring(axes, direction, int(count))
    rings = [_RING] if len(targets.counts) else []
    handles = [*ending_handles(paths), *limits, *rings]
    ring_note = _ring_note(ends, targets)
    notes = [READING, note, ring_note, early_note(paths)]
    return Key(handles, None, "", [line for line in notes if line])


def frame_disc(axes: Axes, reach: float = _MARGIN) -> None:
    """Draw the disc and its centre, with axis limits ±`reach`."""
    axes.add_patch(Circle((0, 0), 1.0, facecolor="#f6f8fa", edgecolor=GREY))
    axes.plot(0, 0, "+", color=GREY, markersize=9)
    ticks = [-1.0, -0.5, 0.0, 0.5, 1.0]
    limits = (-reach, reach)
    axes.set(xlim=limits, ylim=limits, xticks=ticks, yticks=ticks)
    axes.set_aspect("equal")
    axes.set_xlabel(r"$(a - b)\,/\,\mathrm{tr}\,\Sigma$")
    axes.set_ylabel(r"$2c\,/\,\mathrm{tr}\,\Sigma$")


def draw_chord(axes: Axes, outline: np.ndarray) -> Artist:
    """Draw the point or the chord in which a limit ray or plane meets the disc."""
    marker, line = ("D", "none") if len(outline) == 2 else ("none", "-")
    (mark,) = axes.plot(*outline[1:, :2].T, marker=marker, linestyle=line, zorder=2)
    mark.set(color=LIMIT_COLOUR, linewidth=2.4, label="limits")
    return mark


def _common_directions(ends: EscapeDirections) -> EscapeDirections:
    """The few directions that most blow-ups share; empty if there are none."""
    tight = (ends.counts >= _MIN_RUNS) & (ends.spreads <= _CLOSE)
    common = np.flatnonzero(tight)[:_N_RINGS]
    if ends.counts[common].sum() < _MIN_SHARE * ends.counts.sum():
        common = common[:0]
    return EscapeDirections(*(values[common] for values in ends))


def _ring_note(ends: EscapeDirections, targets: EscapeDirections) -> str:
    """A note on the number of blow-ups outside the rings, if there are rings."""
    total = ends.counts.sum()
    n_outside = total - targets.counts.sum()
    if n_outside == 0 or not len(targets.counts):
        return ""
    return f"{n_outside} of {total} blow-ups end outside the rings"


def _ring(axes: Axes, direction: np.ndarray, count: int) -> None:
    """Draw a ring around a direction, and beside the ring the number of runs."""
    axes.plot(*direction, "o", ms=13, mfc="none", mec=INK, mew=1.2, zorder=5)
    length = np.linalg.norm(direction)
    outward = direction / length if length > 0.1 else np.array([0.0, 1.0])
    # In points: 12 for half of the ring and a gap, and 2.6 for half of each digit.
    reach = 12 + 2.6 * len(f"{count}")
    axes.annotate(
        f"{count}",
        (direction[0], direction[1]),
        xytext=(reach * outward[0], 17 * outward[1]),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=mpl.rcParams["legend.fontsize"],
        zorder=6,
    )
