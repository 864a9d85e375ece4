"""Frames of a movie to the content of files: GIF by Pillow, videos by ffmpeg."""

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import chain, repeat
from pathlib import Path
from subprocess import PIPE
from typing import IO, cast

import numpy as np
from PIL import Image

from meanfield.errors import ResourceError

from .files import GIF_FPS

# How ffmpeg is to write each kind: plays everywhere, and sharp enough for thin lines.
_CODECS = {
    ".mp4": "-c:v libx264 -crf 18 -pix_fmt yuv420p -movflags +faststart",
    ".webm": "-c:v libvpx-vp9 -crf 24 -b:v 0 -pix_fmt yuv420p",
}
_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # these codecs know no odd sizes
_SEEN = 6  # frames from which the colours of a GIF are taken


def movie_bytes(
    frames: Sequence[Image.Image], kind: str, *, fps: int, hold: float, loop: int | None
) -> bytes:
    """The content of a file, as `Film.movie` gives it."""
    if kind == ".gif":
        return _gif(frames, fps=fps, hold=hold, loop=loop)
    turn = [*frames, *[frames[-1]] * round(hold * fps)]
    turns = chain.from_iterable(repeat(turn, loop or 1))
    return _video(turns, frames[0].size, fps, kind)


def _gif(
    frames: Sequence[Image.Image], *, fps: int, hold: float, loop: int | None
) -> bytes:
    """A GIF; Pillow counts the turns after the first, and 0 is for ever."""
    content = BytesIO()
    shown, durations = _gif_steps(len(frames), fps)
    durations[-1] += 10 * round(100 * hold)
    turns = {} if loop == 1 else {"loop": max((loop or 0) - 1, 0)}
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
