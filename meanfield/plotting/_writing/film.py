"""Options of a movie, and the frames and files that follow from them."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.plotting._figure.options import document, option

from .files import GIF_FPS, find_ffmpeg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

VIDEOS = (".mp4", ".webm")
TURN = 50.0  # degrees by which the camera turns in a 3D movie
# Without `seconds`, a movie has one frame for each stored frame, up to `_MOST_FRAMES`,
# but lasts at least `_SHORTEST` seconds: short runs are interpolated or slowed down.
_MOST_FRAMES, _SHORTEST = 150, 3.0
_SIZE = (960, 1000)  # default width and height of a movie, in pixels
_LARGEST = 4096  # largest width or height of a movie, in pixels
_LONGEST = 3600.0  # longest duration of a movie or of its last frame, in seconds
_TURNS = 3600.0  # largest turn of the camera, in degrees
_POSITIVE = math.ulp(0.0)  # the smallest positive number
# For each number of a movie, its smallest and largest value, also in words.
_RANGES = {
    "fps": (_POSITIVE, 100.0, "above 0 and at most 100"),
    "trails": (0.0, 1000.0, "from 0 to 1000"),
    "loop": (0.0, 1000.0, "from 0 to 1000"),
    "hold": (0.0, _LONGEST, f"from 0 to {_LONGEST:g} seconds"),
    "seconds": (_POSITIVE, _LONGEST, f"above 0 and at most {_LONGEST:g}"),
    "turn": (-_TURNS, _TURNS, f"from -{_TURNS:g}° to {_TURNS:g}°"),
}


def size_of(text: str) -> tuple[int, int]:
    """Width and height in pixels, from text such as `720x750` or from a width alone.

    Raises:
        InvalidInputError: if they are not integers.

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
            f"`size` must be in pixels, as in 720 or 1280x720; got `{text}`."
        ) from None


@document
@dataclass(frozen=True, kw_only=True)
class Film:
    """Options of a movie: speed, length, size, trails, camera turn.

    Raises:
        InvalidInputError: if a number is out of range.

    Examples:
        >>> from meanfield.plotting import Film
        >>> Film(fps=10, hold=2.0).size
        (960, 1000)
    """

    fps: int = option(
        f"frames per second; a GIF shows at most {GIF_FPS}", "NUMBER", default=20
    )
    seconds: float | None = option(
        "duration in seconds, without the hold [default: one frame for each stored "
        f"one, at most {_MOST_FRAMES}, and at least {_SHORTEST:g} seconds]",
        "NUMBER",
    )
    size: tuple[int, int] = option(
        "size such as 1280x720, or a width alone", "PIXELS", default=_SIZE, read=size_of
    )
    trails: int | None = option(
        "number of past frames in the trails of tokens and ellipses; 0 for no trails",
        "FRAMES",
        movies=("tokens", "cone", "disc"),
    )
    turn: float | None = option(
        f"degrees by which the camera turns, in 3D [default: {TURN:g}]",
        "DEGREES",
        movies=("tokens",),
    )
    loop: int | None = option(
        "number of times it plays; 0 is for ever [default: 0 for a GIF]", "TURNS"
    )
    hold: float = option(
        "seconds for which the last frame is shown", "SECONDS", default=1.0
    )

    def __post_init__(self) -> None:
        for name, (low, high, words) in _RANGES.items():
            number = getattr(self, name)
            if number is not None and not low <= number <= high:
                raise InvalidInputError(f"`{name}` must be {words}; got {number:g}.")
        if not all(100 <= side <= _LARGEST for side in self.size):
            width, height = self.size
            raise InvalidInputError(
                f"`size` must be from 100 to {_LARGEST} pixels in width and height; "
                f"got {width}x{height}."
            )

    @property
    def choices(self) -> list[str]:
        """The names of the options that differ from their defaults."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def count(self, n_stored: int) -> int:
        """The number of frames in the movie of a run that stores `n_stored` frames."""
        if n_stored == 1:  # a single frame cannot move
            return 1
        if self.seconds is not None:
            return max(round(self.seconds * self.fps), 2)
        return max(min(n_stored, _MOST_FRAMES), round(_SHORTEST * self.fps))

    def pixels(self, target: Path) -> tuple[int, int]:
        """The size of the movie in pixels; for videos, rounded up to even numbers."""
        width, height = self.size
        if target.suffix.lower() not in VIDEOS:
            return width, height
        return width + width % 2, height + height % 2

    def movie(self, frames: "Sequence[Image.Image]", kind: str) -> bytes:
        """The content of a movie file with the suffix `.gif`, `.mp4` or `.webm`.

        Raises:
            ResourceError: if ffmpeg fails; the message has the last line of its output.
        """
        from .movie import movie_bytes  # imported here to keep `--help` fast

        return movie_bytes(frames, kind, fps=self.fps, hold=self.hold, loop=self.loop)

    def check_target(self, target: Path) -> None:
        """Raises if a movie cannot be written to this file.

        Raises:
            InvalidInputError: if its suffix is unknown, or a video is to play for ever.
            UnsupportedError: if ffmpeg is needed and not installed.
        """
        kind = target.suffix.lower()
        if kind != ".gif" and kind not in VIDEOS:
            raise InvalidInputError(
                "A movie must be a `.gif`, `.mp4` or `.webm` file; got "
                f"`{target.name}`."
            )
        if kind in VIDEOS and self.loop == 0:
            raise InvalidInputError(
                f"`loop 0` (play for ever) works in a `.gif`, but not in a `{kind}`. "
                "Set `loop` to a number of repetitions, or repeat it in the player."
            )
        if kind in VIDEOS and find_ffmpeg() is None:
            raise UnsupportedError(
                f"`{target.name}` needs the program ffmpeg, which is not on the PATH. "
                'Install it, as by `pip install "meanfield-attention[video]"`, or '
                f"write `{target.with_suffix('.gif').name}`."
            )
