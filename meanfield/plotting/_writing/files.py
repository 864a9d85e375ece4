"""Files for readers, wherever they are wanted: replaced whole, or left as they are."""

import os
from pathlib import Path

from meanfield._writing import writing
from meanfield.errors import InvalidInputError

GIF_FPS = 50  # at most: browsers slow a GIF down whose frames stand less than 20 ms


def named(path: str | Path) -> Path:
    """The place of a file that is to be written.

    Raises:
        InvalidInputError: if it has no name, as `.`, `..` and `/` have none.

    Examples:
        >>> from meanfield.plotting import named
        >>> named("figures/picture.png").name
        'picture.png'
    """
    place = Path(path)
    if place.name in ("", ".."):
        raise InvalidInputError(
            f"`{place}` names a folder, not a file to write; add a name, such as "
            f"`{place / 'picture'}`."
        )
    return place


def put(path: Path, content: bytes) -> Path:
    """The file, once the content is in it: whole, or not at all.

    A link is followed. What is no regular file, such as a pipe or `/dev/stdout`, cannot
    be replaced: it is written as it is.

    Raises:
        ResourceError: if it cannot be written; an old file then stays.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.plotting import put
        >>> put(Path("note.txt"), b"whole, or not at all").read_bytes()
        b'whole, or not at all'
    """
    from meanfield.storage import replace_file  # pages alone need no NumPy

    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_file() or not target.exists():
        replace_file(target, lambda stream: stream.write(content))
        return path
    with writing(path):
        target.write_bytes(content)
    return path
