"""The cone of covariances as one HTML file that turns under the hand; no network."""

import html
import json
import re
from pathlib import Path

import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting._output import unwritable

from ._payload import payload

_SCRIPTS = ("data.js", "camera.js", "painter.js", "controls.js")
_UNTITLED = "Covariances in the cone"
_SUFFIX = ".html"


def save_page(dataset: xr.Dataset, path: str | Path) -> Path:
    """Write `cone_page(dataset)` to `path`, to which `.html` is added if it has none.

    Raises:
        InvalidInputError: if the suffix is another one, or as `cone_page` does.
        ResourceError: if the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in ("", _SUFFIX):
        raise InvalidInputError(
            f"A page cannot be written as `{target.suffix}`; use `{_SUFFIX}`."
        )
    file = target if target.suffix else target.with_suffix(_SUFFIX)
    page = cone_page(dataset)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from error
    return file


def cone_page(dataset: xr.Dataset) -> str:
    r"""An HTML document with the paths of covariances in the cone, to turn and play.

    It holds its script, its style and its data, and fetches nothing. Coordinates are
    rounded to $2^{-15}$ of the height of the picture; paths are thinned as in the panel
    `cone`.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` makes no sense.
    """
    title = str(dataset.attrs.get("title") or "") or _UNTITLED
    data = payload(dataset)
    parts = {
        "title": html.escape(title),
        "style": _source("cone.css"),
        "script": "\n".join(_source(name) for name in _SCRIPTS),
        "data": _inert(json.dumps(data, allow_nan=False, separators=(",", ":"))),
    }
    # One pass: what is filled in is not searched for further fields.
    return re.sub(r"\{\{(\w+)\}\}", lambda field: parts[field[1]], _source("cone.html"))


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _inert(text: str) -> str:
    """JSON in which no HTML parser finds a tag."""
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return text.translate(str.maketrans(escapes))
