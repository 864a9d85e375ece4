"""The live page: data, style and scripts in one HTML file."""

import html
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from meanfield.plotting.pages import (
    bundle,
    embed_json,
    fill_template,
    page_file,
    source,
    write_page,
)
from meanfield.spec import Axis

from ._law import Law
from ._setting import Setting

FOLDER = Path(__file__).parent


def live_page(law: Law, setting: Setting, axes: Sequence[Axis] = ()) -> str:
    """A self-contained HTML document that integrates a flow and draws it.

    Args:
        law: the flow.
        setting: times, tolerances and texts.
        axes: axes of a sweep, which become sliders.
    """
    data = {**asdict(law), **asdict(setting), "axes": [_slider(axis) for axis in axes]}
    parts = {
        "title": html.escape(setting.title),
        "style": source("palette.css") + source("live.css", folder=FOLDER),
        "data": embed_json(data),
        "script": bundle(FOLDER / "main.js"),
    }
    return fill_template(source("live.html", folder=FOLDER), parts)


def save_live_page(
    path: str | Path, law: Law, setting: Setting, axes: Sequence[Axis] = ()
) -> Path:
    """Write `live_page` to `path`; `.html` is appended if it has no suffix.

    Raises:
        InvalidInputError: if `path` has another suffix.
        ResourceError: if the file cannot be written.
    """
    return write_page(page_file(path), live_page(law, setting, axes))


def _slider(axis: Axis) -> dict[str, Any]:
    entry = None if axis.entry is None else list(axis.entry)
    return {
        "key": axis.key,
        "entry": entry,
        "name": axis.name,
        "scale": axis.scale,
        "values": list(axis.values),
    }
