"""Encoding of the frames of a movie: GIF by Pillow, videos by ffmpeg."""

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
from meanfield.plotting.reading.observables import even_frames

from .files import GIF_FPS, find_ffmpeg

# Options of ffmpeg for videos that play everywhere and show thin lines sharply.
_CODECS = {
    ".mp4": "-c:v libx264 -crf 18 -pix_fmt yuv420p -movflags +faststart",
    ".webm": "-c:v libvpx-vp9 -crf 24 -b:v 0 -pix_fmt yuv420p",
}
_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # video codecs need even widths and heights
_PALETTE_FRAMES = 6  # number of frames from which the palette of a GIF is computed


def movie_bytes(
    frames: Sequence[Image.Image], kind: str, *, fps: int, hold: float, loop: int | None
) -> bytes:
    """The content of a movie file; see `Film.movie`."""
    if kind == ".gif":
        return _gif(frames, fps=fps, hold=hold, loop=loop)
    turn = [*frames, *[frames[-1]] * round(hold * fps)]
    turns = chain.from_iterable(repeat(turn, loop or 1))
    return _video(turns, frames[0].size, fps, kind)


def _gif(
    frames: Sequence[Image.Image], *, fps: int, hold: float, loop: int | None
) -> bytes:
    """The content of a GIF.

    Pillow's `loop` counts the repetitions after the first showing; 0 is for ever.
    """
    content = BytesIO()
    indices, durations = _gif_steps(len(frames), fps)
    durations[-1] += 10 * round(100 * hold)
    turns = {} if loop == 1 else {"loop": max((loop or 0) - 1, 0)}
    palette = _palette([frames[i] for i in indices])
    images = [
        frames[i].quantize(palette=palette, dither=Image.Dither.NONE) for i in indices
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
    """An image whose palette serves all frames and has the exact background colour.

    Computing a palette for each frame would dominate the time to write a GIF.
    """
    width, height = frames[0].size
    indices = even_frames(len(frames), _PALETTE_FRAMES)
    strip = Image.new("RGB", (width, height * indices.size))
    for place, index in enumerate(indices):
        strip.paste(frames[index], (0, height * place))
    palette = strip.quantize(256, method=Image.Quantize.FASTOCTREE)
    colours, paper = palette.getpalette(), np.asarray(palette)[0, 0]
    assert colours is not None
    colours[3 * paper : 3 * paper + 3] = np.asarray(strip)[0, 0].tolist()
    palette.putpalette(colours)
    return palette


def _gif_steps(count: int, fps: int) -> tuple[list[int], list[int]]:
    """Indices of the frames that a GIF shows, and their durations in milliseconds.

    A GIF counts in hundredths of a second. The end times are rounded, not the
    durations, so that the total duration is right. The last frame is always shown.
    """
    number = min(count, max(GIF_FPS * count // fps, 2))
    indices = np.linspace(0, count - 1, number).round().astype(int).tolist()
    ends = 10 * np.round(100 * count / fps * np.arange(number + 1) / number)
    return indices, np.diff(ends).astype(int).tolist()


def _video(
    frames: Iterable[Image.Image], size: tuple[int, int], fps: int, kind: str
) -> bytes:
    """The content of a video; the frames are piped to ffmpeg one by one."""
    width, height = size
    raw = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i -".split()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"movie{kind}"
        quiet = [find_ffmpeg() or "ffmpeg", "-y", "-loglevel", "error"]
        command = [*quiet, *raw, "-an", "-vf", _EVEN, *_CODECS[kind].split(), str(file)]
        # Messages go to a file, because a full pipe that nobody reads would block
        # ffmpeg.
        with (Path(folder) / "said").open("w+b") as log:
            code = _run_encoder(command, frames, log)
            log.seek(0)
            message = log.read().decode(errors="replace").strip().splitlines()[-1:]
        if code != 0:
            raise ResourceError(
                f"ffmpeg could not write `{kind}`: {' '.join(message)}. Write a `.gif`."
            )
        return file.read_bytes()


def _run_encoder(
    command: list[str], frames: Iterable[Image.Image], log: IO[bytes]
) -> int:
    """Run an encoder with frames on its standard input; return its exit code."""
    with subprocess.Popen(command, stdin=PIPE, stdout=log, stderr=log) as program:
        with suppress(BrokenPipeError):  # the encoder ended early; see its exit code
            for frame in frames:
                cast("IO[bytes]", program.stdin).write(frame.tobytes())
        program.communicate()
    return program.returncode
