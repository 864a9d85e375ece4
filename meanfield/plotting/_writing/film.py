"""Options of a movie, and what they make of the frames of a run."""

import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.plotting._figure.options import document, option

from .files import GIF_FPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

VIDEOS = (".mp4", ".webm")
TURN = 50.0  # degrees of a camera in space
# Frames of a movie whose length is not said, and its least seconds: a run of more is
# thinned evenly, one of fewer shows its own for longer, or what is between them.
_MOST_FRAMES, _SHORTEST = 150, 3.0
_SIZE = (960, 1000)  # pixels
_LARGEST = 4096  # pixels of a side
_LONGEST = 3600.0  # seconds of a movie, or of its hold
_TURNS = 3600.0  # degrees


def size_of(text: str) -> tuple[int, int]:
    """Pixels from `720x750`, or from a width alone, with the height that suits.

    Raises:
        InvalidInputError: if they are no whole numbers.

    Examples:
        >>> from meanfield.plotting import size_of
        >>> size_of("1280x720")
        (1280, 720)
    """
    width, cross, height = text.lower().partition("x")
    try:
        return int(width), int(height) if cross else round(
            int(width) * _SIZE[1] / _SIZE[0]
        )
    except ValueError:
        raise InvalidInputError(
            f"`size` must be pixels, as 720 or 1280x720; got `{text}`."
        ) from None


@document
@dataclass(frozen=True, kw_only=True)
class Film:
    """How the frames of a movie are shown.

    Raises:
        InvalidInputError: if a number is out of range.

    Examples:
        >>> from meanfield.plotting import Film
        >>> Film(fps=10, hold=2.0).size
        (960, 1000)
    """

    fps: int = option(
        f"frames of the run shown in a second, of a GIF {GIF_FPS} at most",
        "NUMBER",
        default=20,
    )
    seconds: float | None = option(
        "seconds for which it plays, before the hold; by default a frame of each "
        f"stored one, {_MOST_FRAMES} at most, and {_SHORTEST:g} seconds at least",
        "NUMBER",
    )
    size: tuple[int, int] = option(
        "1280x720, or a width alone", "PIXELS", default=_SIZE, read=size_of
    )
    trails: int | None = option(
        "frames of the past that tokens and ellipses trail behind them; 0 for none",
        "FRAMES",
        movies=("tokens", "cone", "disc"),
    )
    turn: float | None = option(
        f"degrees by which the camera turns, in space [default: {TURN:g}]",
        "DEGREES",
        movies=("tokens",),
    )
    loop: int | None = option(
        "how often it plays; without it, or with 0, a GIF does for ever", "TURNS"
    )
    hold: float = option(
        "seconds for which the last frame stands", "SECONDS", default=1.0
    )

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 100:
            raise InvalidInputError(
                f"`fps` must be above 0 and at most 100; got {self.fps}."
            )
        if not all(100 <= side <= _LARGEST for side in self.size):
            width, height = self.size
            raise InvalidInputError(
                f"`size` must be from 100 to {_LARGEST} pixels each way; got "
                f"{width}x{height}."
            )
        for name in ("trails", "loop"):
            count = getattr(self, name)
            if count is not None and not 0 <= count <= 1000:
                raise InvalidInputError(f"`{name}` must be 0 to 1000; got {count}.")
        if not 0 <= self.hold <= _LONGEST:
            raise InvalidInputError(
                f"`hold` must be 0 to {_LONGEST:g} seconds; got {self.hold:g}."
            )

        if self.seconds is not None and not 0 < self.seconds <= _LONGEST:
            raise InvalidInputError(
                f"`seconds` must be above 0 and at most {_LONGEST:g}; got "
                f"{self.seconds:g}."
            )
        if self.turn is not None and not abs(self.turn) <= _TURNS:
            raise InvalidInputError(
                f"`turn` must be -{_TURNS:g} to {_TURNS:g} degrees; got {self.turn:g}."
            )

    @property
    def chosen(self) -> list[str]:
        """The names of what is not left to the movie."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def count(self, stored: int) -> int:
        """The number of frames of a run of which so many are stored."""
        if stored == 1:  # nothing moves
            return 1
        if self.seconds is not None:
            return max(round(self.seconds * self.fps), 2)
        return max(min(stored, _MOST_FRAMES), round(_SHORTEST * self.fps))

    def pixels(self, target: Path) -> tuple[int, int]:
        """The width and height of a file: its `size`, in a video to the next even."""
        width, height = self.size
        if target.suffix.lower() not in VIDEOS:
            return width, height
        return width + width % 2, height + height % 2

    def movie(self, frames: "Sequence[Image.Image]", kind: str) -> bytes:
        """The content of a file of this kind, `.gif`, `.mp4` or `.webm`.

        Raises:
            ResourceError: if ffmpeg fails, with the end of what it says.
        """
        from .movie import movie_bytes  # the help of commands needs no pixels

        how = {"fps": self.fps, "hold": self.hold, "loop": self.loop}
        return movie_bytes(frames, kind, **how)

    def refuse(self, target: Path) -> None:
        """Refuse a file that cannot be written so.

        Raises:
            InvalidInputError: if its ending is unknown, or a video is to play for ever.
            UnsupportedError: if it needs ffmpeg, and there is none.
        """
        kind = target.suffix.lower()
        if kind != ".gif" and kind not in VIDEOS:
            raise InvalidInputError(
                "An animation is a `.gif`, `.mp4` or `.webm` file; got "
                f"`{target.name}`."
            )
        if kind in VIDEOS and self.loop == 0:
            raise InvalidInputError(
                f"`loop 0`, for ever, is for a `.gif`; a `{kind}` holds a number of "
                "turns, and its player repeats them."
            )
        if kind in VIDEOS and shutil.which("ffmpeg") is None:
            raise UnsupportedError(
                f"`{target.name}` needs the program ffmpeg, which is not on the PATH: "
                f"install it, or write `{target.with_suffix('.gif').name}`."
            )
