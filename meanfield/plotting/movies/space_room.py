"""Fitting of 3D axes, with all their labels, to the room on their page."""

from collections.abc import Callable, Iterator

import numpy as np
from matplotlib.collections import Collection, PathCollection
from matplotlib.transforms import Bbox
from mpl_toolkits.mplot3d.axes3d import Axes3D

_ROUNDS = 4  # iterations; one is not enough, since labels do not grow with the axes
_SAFE = 0.99  # share of the room that the axes fill

Extent = Callable[[], Bbox]


def fill(axes: Axes3D, room: Bbox, extent: Extent) -> None:
    """Scale and centre 3D axes so that they fill a rectangle.

    Args:
        axes: the axes, with all their artists.
        room: the rectangle, in pixels.
        extent: returns the box that the axes occupy over all frames, in pixels.
    """
    for _ in range(_ROUNDS):
        _zoom(axes, _SAFE * float(np.min(np.divide(room.size, extent().size))))
        _move(axes, _centre(room) - _centre(extent()))


def space_taken(axes: Axes3D) -> Bbox:
    """The box of drawn 3D axes with their labels, without title and legend."""
    return Bbox.union(list(_boxes(axes)))


def _boxes(axes: Axes3D) -> Iterator[Bbox]:
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        box = axis.get_tightbbox()
        if box is not None:
            yield box
    for part in axes.collections:
        pixels = _pixels(part)
        pixels = pixels[np.isfinite(pixels).all(axis=1)]
        if len(pixels):
            yield Bbox([pixels.min(axis=0), pixels.max(axis=0)])


def _pixels(part: Collection) -> np.ndarray:
    """The pixels of the dots, lines or faces of a drawn collection, (n, 2)."""
    if isinstance(part, PathCollection):
        return part.get_offset_transform().transform(np.asarray(part.get_offsets()))
    corners = [np.asarray(path.vertices) for path in part.get_paths()]
    return part.get_transform().transform(np.concatenate([np.empty((0, 2)), *corners]))


def _zoom(axes: Axes3D, factor: float) -> None:
    """Multiply the zoom of 3D axes; it is stored as the length of the box aspect."""
    aspect = np.asarray(axes.get_box_aspect())
    axes.set_box_aspect(tuple(aspect))
    unit_length = np.linalg.norm(np.asarray(axes.get_box_aspect()))
    length = float(np.linalg.norm(aspect) / unit_length)
    axes.set_box_aspect(tuple(aspect), zoom=factor * length)  # pyright: ignore[reportArgumentType]


def _move(axes: Axes3D, pixels: np.ndarray) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    box = axes.get_position(original=True)
    x, y = box.p0 + pixels / figure.bbox.size
    axes.set_position((x, y, box.width, box.height))


def _centre(box: Bbox) -> np.ndarray:
    return box.get_points().mean(axis=0)
