"""What an animation shows of a representation."""

from abc import ABC, abstractmethod

import numpy as np
from matplotlib.collections import PathCollection


class AbstractScene(ABC):
    """Artists on an axes that can show any frame of a run."""

    @abstractmethod
    def show(self, frame: int) -> None:
        """Move the artists to where they are at `frame`."""


def move_in_space(points: PathCollection, places: np.ndarray) -> None:
    """Move points in space to places (n, 3), which mplot3d has no public way to do."""
    points._offsets3d = tuple(places.T)  # pyright: ignore[reportAttributeAccessIssue]
