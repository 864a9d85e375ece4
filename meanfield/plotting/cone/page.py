"""The cone of covariances as an interactive, self-contained HTML page."""

import html
from pathlib import Path

import xarray as xr

from meanfield.plotting.pages import (
    ASSETS,
    bundle,
    embed_json,
    fill_template,
    page_file,
    source,
    write_page,
)
from meanfield.plotting.reading.description import description

from .payload import payload

_DEFAULT_TITLE = "Covariances in the cone"


def save_page(dataset: xr.Dataset, path: str | Path) -> Path:
    """Write `cone_page(dataset)` to `path`; `.html` is appended if it has no suffix.

    Raises:
        InvalidInputError: if `path` has another suffix, or as raised by `cone_page`.
        ResourceError: if the file cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import save_page
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "A": -1, "d": 2, "t": 1}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> save_page(runs.dataset(Path("cone.zarr")), "cone").name
        'cone.html'
    """
    file = page_file(path)
    return write_page(file, cone_page(dataset))


def cone_page(dataset: xr.Dataset) -> str:
    r"""An HTML document with an interactive, animated cone of paths of covariances.

    It contains its script, style and data, and needs no network. Coordinates are
    rounded to $2^{-15}$ of the height of the picture; paths are thinned as in the panel
    `cone`.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` is invalid.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import cone_page
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "A": -1, "d": 2, "t": 1}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> cone_page(runs.dataset(Path("cone.zarr")))[:15]
        '<!doctype html>'
    """
    title = str(dataset.attrs.get("title") or "") or _DEFAULT_TITLE
    run, data = description(dataset), payload({"": dataset})
    parts = {
        "title": html.escape(title),
        "run": f'<p class="hint">{html.escape(run)}</p>' if run else "",
        "style": source("palette.css", "cone.css"),
        "script": bundle(ASSETS / "turning.js"),
        "data": embed_json(data),
    }
    return fill_template(source("cone.html"), parts)
