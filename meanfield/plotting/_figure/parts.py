"""Lines and dots of a picture, in the plane or in space, that may move."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

Colours = np.ndarray | Sequence[Any] | str


class AbstractScene(ABC):
    """Artists on an axes that can show any frame of a run."""

    @abstractmethod
    def show(self, frame: int) -> None:
        """Move the artists to where they are at `frame`."""


def draw_lines(
    axes: Axes, lines: Sequence[np.ndarray], colours: Colours, **how: Any
) -> LineCollection:
    """Lines (k, d) on axes of dimension d, whose limits stay as they are."""
    if isinstance(axes, Axes3D):
        drawn = Line3DCollection(list(lines), colors=colours, **how)
        axes.add_collection3d(drawn, autolim=False)
        return drawn
    drawn = LineCollection(list(lines), colors=colours, **how)
    axes.add_collection(drawn, autolim=False)
    return drawn


def draw_dots(
    axes: Axes, places: np.ndarray, areas: np.ndarray | float, *, c: Colours, **how: Any
) -> PathCollection:
    """Dots of given areas and colours `c` at places (n, d) on axes of dimension d.

    Edges have these colours too: those that follow their faces cannot be repainted in
    space, where matplotlib tells the colours of the dots in view alone.
    """
    return axes.scatter(*places.T, s=areas, c=c, **{"edgecolors": c, **how})


def move_dots(dots: PathCollection, places: np.ndarray) -> None:
    """Move dots to places (n, d)."""
    if places.shape[1] == 2:
        dots.set_offsets(places)
    else:  # mplot3d has no public way to do it
        dots._offsets3d = tuple(places.T)  # pyright: ignore[reportAttributeAccessIssue]
