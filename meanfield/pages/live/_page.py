"""The page: its law, its settings and its scripts in one file."""

import html
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from meanfield.plotting.pages import (
    bundle,
    embedded,
    filled,
    page_file,
    source,
    written,
)
from meanfield.spec import Axis

from ._law import Law
from ._setting import Setting

FOLDER = Path(__file__).parent


def live_page(law: Law, setting: Setting, axes: Sequence[Axis] = ()) -> str:
    """An HTML document that integrates a law and draws it; it fetches nothing.

    Args:
        law: what moves.
        setting: how long, how exactly, and what is said of it.
        axes: of a sweep, which become sliders.
    """
    data = {**asdict(law), **asdict(setting), "axes": [_slider(axis) for axis in axes]}
    parts = {
        "title": html.escape(setting.title),
        "style": source("palette.css") + source("live.css", folder=FOLDER),
        "data": embedded(data),
        "script": bundle(FOLDER / "main.js"),
    }
    return filled(source("live.html", folder=FOLDER), parts)


def save_live_page(
    path: str | Path, law: Law, setting: Setting, axes: Sequence[Axis] = ()
) -> Path:
    """Writes `live_page` to `path`, to which `.html` is added if it has no suffix.

    Raises:
        InvalidInputError: if the suffix is another one.
        ResourceError: if the file cannot be written.
    """
    return written(page_file(path), live_page(law, setting, axes))


def _slider(axis: Axis) -> dict[str, Any]:
    entry = None if axis.entry is None else list(axis.entry)
    return {
        "key": axis.key,
        "entry": entry,
        "name": axis.name,
        "scale": axis.scale,
        "values": list(axis.values),
    }
