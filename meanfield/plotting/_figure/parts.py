"""Lines and dots, in the plane or in space, that may move from frame to frame."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

Colours = np.ndarray | Sequence[Any] | str


Show = Callable[[int], None]
"""A function that moves the artists of a scene to their places in a frame."""


def draw_lines(
    axes: Axes, lines: Sequence[np.ndarray], colours: Colours, **how: Any
) -> LineCollection:
    """Draw lines (k, d) on axes of dimension d, without changing the axis limits."""
    if isinstance(axes, Axes3D):
        collection = Line3DCollection(list(lines), colors=colours, **how)
        axes.add_collection3d(collection, autolim=False)
        return collection
    collection = LineCollection(list(lines), colors=colours, **how)
    axes.add_collection(collection, autolim=False)
    return collection


def draw_dots(
    axes: Axes, places: np.ndarray, areas: np.ndarray | float, *, c: Colours, **how: Any
) -> PathCollection:
    """Draw dots with areas and colours `c` at `places` (n, d), on d-dimensional axes.

    Edge colours are set explicitly: edges that follow the faces cannot be repainted in
    3D, where matplotlib reports only the colours of the dots in view.
    """
    return axes.scatter(*places.T, s=areas, c=c, **{"edgecolors": c, **how})


def move_dots(dots: PathCollection, places: np.ndarray) -> None:
    """Move dots to places (n, d)."""
    if places.shape[1] == 2:
        dots.set_offsets(places)
    else:  # mplot3d has no public method to move dots
        dots._offsets3d = tuple(places.T)  # pyright: ignore[reportAttributeAccessIssue]
