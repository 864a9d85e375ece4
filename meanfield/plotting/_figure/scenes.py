"""What an animation shows of a representation."""

from abc import ABC, abstractmethod


class AbstractScene(ABC):
    """Artists on an axes that can show any frame of a run."""

    @abstractmethod
    def show(self, frame: int) -> None:
        """Move the artists to where they are at `frame`."""
