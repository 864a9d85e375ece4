"""Movies to files: GIF by Pillow, MP4 and WebM by the program ffmpeg."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from io import BytesIO
from itertools import chain, repeat
from pathlib import Path
from subprocess import PIPE
from typing import IO, cast

import numpy as np
from PIL import Image

from meanfield.errors import InvalidInputError, ResourceError, UnsupportedError

from .defaults import FPS, GIF_FPS, HOLD, MOST_FRAMES, SHORTEST, SIZE

# How ffmpeg is to write each kind: plays everywhere, and sharp enough for thin lines.
_CODECS = {
    ".mp4": "-c:v libx264 -crf 18 -pix_fmt yuv420p -movflags +faststart",
    ".webm": "-c:v libvpx-vp9 -crf 24 -b:v 0 -pix_fmt yuv420p",
}
_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # these codecs know no odd sizes
_LARGEST = 4096  # pixels of a side
_LONGEST = 3600.0  # seconds of a movie, or of its hold
_TURNS = 3600.0  # degrees
_SEEN = 6  # frames from which the colours of a GIF are taken


@dataclass(frozen=True, kw_only=True)
class Film:
    """How the frames of a movie are shown.

    Attributes:
        fps: frames per second; a GIF shows 50 of them at most, evenly chosen.
        size: width and height in pixels.
        trails: frames of the past that tokens trail behind them; None for what suits.
        loop: how often it plays, 0 for ever; a GIF does so by itself.
        hold: seconds for which the last frame stands.
        seconds: that it takes, without the hold; None for a frame of each stored one,
            in three seconds at least.
        turn: degrees by which a camera in space turns; None for what suits.

    Raises:
        InvalidInputError: if a number is out of range.

    Examples:
        >>> from meanfield.plotting import Film
        >>> Film(fps=10, hold=2.0).size
        (960, 1000)
    """

    fps: int = FPS
    size: tuple[int, int] = SIZE
    trails: int | None = None
    loop: int | None = None
    hold: float = HOLD
    seconds: float | None = None
    turn: float | None = None

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
        return max(min(stored, MOST_FRAMES), round(SHORTEST * self.fps))

    def pixels(self, target: Path) -> tuple[int, int]:
        """The width and height of a file: its `size`, in a video to the next even."""
        width, height = self.size
        if target.suffix.lower() not in _CODECS:
            return width, height
        return width + width % 2, height + height % 2

    def refuse(self, target: Path) -> None:
        """Refuse a file that cannot be written so.

        Raises:
            InvalidInputError: if its ending is unknown, or a video is to play for ever.
            UnsupportedError: if it needs ffmpeg, and there is none.
        """
        kind = target.suffix.lower()
        if kind != ".gif" and kind not in _CODECS:
            raise InvalidInputError(
                "An animation is a `.gif`, `.mp4` or `.webm` file; got "
                f"`{target.name}`."
            )
        if kind in _CODECS and self.loop == 0:
            raise InvalidInputError(
                f"`loop 0`, for ever, is for a `.gif`; a `{kind}` holds a number of "
                "turns, and its player repeats them."
            )
        if kind in _CODECS and shutil.which("ffmpeg") is None:
            raise UnsupportedError(
                f"`{target.name}` needs the program ffmpeg, which is not on the PATH: "
                f"install it, or write `{target.with_suffix('.gif').name}`."
            )

    def movie(self, frames: Sequence[Image.Image], kind: str) -> bytes:
        """The content of a file of this kind, `.gif`, `.mp4` or `.webm`.

        Raises:
            ResourceError: if ffmpeg fails, with the end of what it says.
        """
        if kind == ".gif":
            return self._gif(frames)
        turn = [*frames, *[frames[-1]] * round(self.hold * self.fps)]
        turns = chain.from_iterable(repeat(turn, self.loop or 1))
        return _video(turns, frames[0].size, self.fps, kind)

    def _gif(self, frames: Sequence[Image.Image]) -> bytes:
        """A GIF; Pillow counts the turns after the first, and 0 is for ever."""
        content = BytesIO()
        shown, durations = _gif_steps(len(frames), self.fps)
        durations[-1] += 10 * round(100 * self.hold)
        turns = {} if self.loop == 1 else {"loop": max((self.loop or 0) - 1, 0)}
        palette = _palette([frames[i] for i in shown])
        images = [
            frames[i].quantize(palette=palette, dither=Image.Dither.NONE) for i in shown
        ]
        images[0].save(
            content,
            format="gif",
            save_all=True,
            append_images=images[1:],
            duration=durations,
            **turns,
        )
        return content.getvalue()


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
            int(width) * SIZE[1] / SIZE[0]
        )
    except ValueError:
        raise InvalidInputError(
            f"`size` must be pixels, as 720 or 1280x720; got `{text}`."
        ) from None


def _palette(frames: Sequence[Image.Image]) -> Image.Image:
    """An image with the colours that all frames share, the paper's among them.

    A palette for each frame would take most of the time that a GIF takes.
    """
    width, height = frames[0].size
    seen = np.unique(np.linspace(0, len(frames) - 1, _SEEN).round().astype(int))
    strip = Image.new("RGB", (width, height * seen.size))
    for place, index in enumerate(seen):
        strip.paste(frames[index], (0, height * place))
    palette = strip.quantize(256, method=Image.Quantize.FASTOCTREE)
    colours, paper = palette.getpalette(), np.asarray(palette)[0, 0]
    assert colours is not None
    colours[3 * paper : 3 * paper + 3] = np.asarray(strip)[0, 0].tolist()
    palette.putpalette(colours)
    return palette


def _gif_steps(count: int, fps: int) -> tuple[list[int], list[int]]:
    """Which frames a GIF shows, the last among them, and their milliseconds.

    A GIF counts in hundredths of a second: it is the ends of frames that are rounded,
    so that together they last as long as they should.
    """
    number = min(count, max(GIF_FPS * count // fps, 2))
    shown = np.linspace(0, count - 1, number).round().astype(int).tolist()
    ends = 10 * np.round(100 * count / fps * np.arange(number + 1) / number)
    return shown, np.diff(ends).astype(int).tolist()


def _video(
    frames: Iterable[Image.Image], size: tuple[int, int], fps: int, kind: str
) -> bytes:
    """What ffmpeg makes of frames, of which it is given one after the other."""
    width, height = size
    raw = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -".split()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"movie{kind}"
        quiet = ["ffmpeg", "-y", "-loglevel", "error"]
        command = [*quiet, *raw, "-an", "-vf", _EVEN, *_CODECS[kind].split(), str(file)]
        # What it says goes to a file: a pipe that nobody reads would stop it when full.
        with (Path(folder) / "said").open("w+b") as said:
            code = _fed(command, frames, said)
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()[-1:]
        if code != 0:
            raise ResourceError(
                f"ffmpeg wrote no `{kind}`: {' '.join(words)}; write a .gif."
            )
        return file.read_bytes()


def _fed(command: list[str], frames: Iterable[Image.Image], said: IO[bytes]) -> int:
    """How a program ends that is given frames, with what it says in a file."""
    with subprocess.Popen(command, stdin=PIPE, stdout=said, stderr=said) as program:
        with suppress(BrokenPipeError):  # it has ended, and its code says so
            for frame in frames:
                cast("IO[bytes]", program.stdin).write(frame.tobytes())
        program.communicate()
    return program.returncode
