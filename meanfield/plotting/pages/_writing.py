"""Writing of pages, and the templates and assets that they are made of."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from meanfield.errors import InvalidInputError
from meanfield.plotting._writing.files import output_path, write_file

_SUFFIX = ".html"
ASSETS = Path(__file__).parent  # folder of templates, styles and scripts


def page_file(path: str | Path) -> Path:
    """The file of a page: `path`, with `.html` appended if it has no suffix.

    Raises:
        InvalidInputError: if `path` has another suffix, or no file name.
    """
    target = output_path(path)
    if target.suffix.lower() not in ("", _SUFFIX):
        raise InvalidInputError(
            f"A page cannot be written as `{target.suffix}`; use `{_SUFFIX}`."
        )
    return target if target.suffix else target.with_suffix(_SUFFIX)


def write_page(file: Path, page: str) -> Path:
    """Write a page to a file, and return the file.

    Raises:
        ResourceError: if the file cannot be written; an old file is then kept.
    """
    return write_file(file, page.encode())


def source(*names: str, folder: Path = ASSETS) -> str:
    """The concatenated text of files in a folder, by default `ASSETS`."""
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced by the part with this name.

    Inserted parts are not searched for further fields.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda field: parts[field[1]], template)


def embed_json(values: object) -> str:
    """Values as JSON that is safe inside HTML, with `<`, `>` and `&` escaped.

    Raises:
        ValueError: if a number is not finite.
    """
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return text.translate(str.maketrans(escapes))
