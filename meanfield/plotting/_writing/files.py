"""Output files: checked paths, and files that are written completely or not at all."""

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

from meanfield._writing import writing
from meanfield.errors import InvalidInputError

GIF_FPS = 50  # largest frame rate of a GIF; browsers slow down faster ones


def output_path(path: str | Path) -> Path:
    """The path of an output file, checked to have a file name.

    Raises:
        InvalidInputError: if it has no file name, such as `.`, `..` or `/`.

    Examples:
        >>> from meanfield.plotting import output_path
        >>> output_path("figures/picture.png").name
        'picture.png'
    """
    place = Path(path)
    if place.name in ("", ".."):
        raise InvalidInputError(
            f"`{place}` names a folder, not a file. Use a file name such as "
            f"`{place / 'picture'}`."
        )
    return place


def write_file(path: Path, content: bytes) -> Path:
    """Write `content` to a file, completely or not at all, and return `path`.

    Symbolic links are followed. A path that is not a regular file, such as a pipe or
    `/dev/stdout`, cannot be replaced and is written in place.

    Raises:
        ResourceError: if the file cannot be written; an old file is then kept.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.plotting import write_file
        >>> write_file(Path("note.txt"), b"whole, or not at all").read_bytes()
        b'whole, or not at all'
    """
    # Imported here, so that importing this module does not load NumPy.
    from meanfield.storage import replace_file

    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_file() or not target.exists():
        replace_file(target, lambda stream: stream.write(content))
        return path
    with writing(path):
        target.write_bytes(content)
    return path


def find_ffmpeg() -> str | None:
    """The program ffmpeg on the PATH, or that of `imageio-ffmpeg`; None if absent."""
    program = shutil.which("ffmpeg")
    if program is not None or importlib.util.find_spec("imageio_ffmpeg") is None:
        return program
    with contextlib.suppress(RuntimeError):  # the package may come without the program
        return importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    return None
