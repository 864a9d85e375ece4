"""The cone of covariances as one HTML file that turns under the hand; no network."""

import html
from pathlib import Path

import xarray as xr

from meanfield.plotting.pages import (
    SHARED,
    bundle,
    embedded,
    filled,
    page_file,
    source,
    written,
)
from meanfield.plotting.reading.described import described

from .payload import payload

_UNTITLED = "Covariances in the cone"


def save_page(dataset: xr.Dataset, path: str | Path) -> Path:
    """Write `cone_page(dataset)` to `path`, to which `.html` is added if it has none.

    Raises:
        InvalidInputError: if the suffix is another one, or as `cone_page` does.
        ResourceError: if the file cannot be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import save_page
        >>> keys = {
        ...     "measure": "gaussian",
        ...     "starts": "grid:4",
        ...     "A": -1.0,
        ...     "d": 2,
        ...     "t": 1.0,
        ... }
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> save_page(runs.dataset(Path("cone.zarr")), "cone").name
        'cone.html'
    """
    file = page_file(path)
    return written(file, cone_page(dataset))


def cone_page(dataset: xr.Dataset) -> str:
    r"""An HTML document with the paths of covariances in the cone, to turn and play.

    It holds its script, its style and its data, and fetches nothing. Coordinates are
    rounded to $2^{-15}$ of the height of the picture; paths are thinned as in the panel
    `cone`.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` makes no sense.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import cone_page
        >>> keys = {
        ...     "measure": "gaussian",
        ...     "starts": "grid:4",
        ...     "A": -1.0,
        ...     "d": 2,
        ...     "t": 1.0,
        ... }
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> cone_page(runs.dataset(Path("cone.zarr")))[:15]
        '<!doctype html>'
    """
    title = str(dataset.attrs.get("title") or "") or _UNTITLED
    run, data = described(dataset), payload({"": dataset})
    parts = {
        "title": html.escape(title),
        "run": f'<p class="hint">{html.escape(run)}</p>' if run else "",
        "style": source("palette.css", "cone.css"),
        "script": bundle(SHARED / "turning.js"),
        "data": embedded(data),
    }
    return filled(source("cone.html"), parts)
