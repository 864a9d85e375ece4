"""Pages as files, and the sources they are filled from."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from meanfield.errors import InvalidInputError
from meanfield.plotting._writing.files import named, put

_SUFFIX = ".html"
SHARED = Path(__file__).parent  # of what pages are filled with


def page_file(path: str | Path) -> Path:
    """The file of a page: `path`, to which `.html` is added if it has no suffix.

    Raises:
        InvalidInputError: if the suffix is another one, or there is no name.
    """
    target = named(path)
    if target.suffix.lower() not in ("", _SUFFIX):
        raise InvalidInputError(
            f"A page cannot be written as `{target.suffix}`; use `{_SUFFIX}`."
        )
    return target if target.suffix else target.with_suffix(_SUFFIX)


def written(file: Path, page: str) -> Path:
    """The file, once the page is in it.

    Raises:
        ResourceError: if the file cannot be written; an old one then stays.
    """
    return put(file, page.encode())


def source(*names: str, folder: Path = SHARED) -> str:
    """The text of files of a folder, by default this one, one after the other."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced by the part of that name.

    In one pass: what is filled in is not searched for further fields.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda field: parts[field[1]], template)


def embedded(values: object) -> str:
    """Values as JSON in which no HTML parser finds a tag.

    Raises:
        ValueError: if a number among them is not finite.
    """
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return text.translate(str.maketrans(escapes))
