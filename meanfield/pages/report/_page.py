"""A report as one HTML file that fetches nothing."""

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanfield import runs
from meanfield.errors import InputFileError
from meanfield.plotting.pages import (
    SHARED,
    embedded,
    expose,
    filled,
    page_file,
    source,
    statements_page,
    written,
)

from ._comparison import ComparedRuns
from ._run import run_cards, run_scene
from ._subject import Subject
from ._sweep import sweep_cards, sweep_scene

if TYPE_CHECKING:
    import xarray

_FAULTS = (AttributeError, LookupError, TypeError, ValueError)
_BROWSER = Path(__file__).parent / "browser"
_SHARED = ("data.js", "colours.js", "elements.js", "copy.js")
_SCRIPTS = {
    "flow": (
        "camera.js",
        "flow.js",
        "boxes.js",
        "dots.js",
        "density.js",
        "ellipse.js",
        "stage.js",
        "line.js",
        "chosen.js",
        "labels.js",
        "key.js",
        "covariances.js",
        "curves.js",
        "player.js",
        "choices.js",
        "picture.js",
        "hands.js",
        "main.js",
    ),
    "sweep": ("cells.js", "phase.js"),
}
_ALONE = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_SERVED = f"{_ALONE}; connect-src 'self'"

Report = Callable[[int, int], None]
Read = Callable[[Path], "xarray.Dataset"]


def script(*names: str) -> str:
    """Scripts of a report, with the modules of all pages above them."""
    modules = (SHARED / f"{name}.js" for name in ("scales", "palette", "cone"))
    return expose(*modules) + source(*names, folder=_BROWSER)


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        title: of the page.
        scene: what it draws, ready for JSON.
        cards: what it says, as HTML.
    """

    title: str
    scene: dict[str, Any]
    cards: str

    def titled(self, title: str | None) -> "Page":
        """The page under another title, if one is given."""
        return replace(self, title=title) if title else self

    def as_json(self, state: str) -> str:
        """The page as a browser takes it that shows an older one, and what it shows."""
        about = {"title": self.title, "cards": self.cards, "state": state}
        return embedded({**about, "scene": self.scene})

    def as_html(self, *, address: str = "", state: str = "") -> str:
        """The page as a document.

        Args:
            address: where newer pages come from, as JSON; nowhere if empty.
            state: of what it shows, which newer pages do not have.
        """
        kind = self.scene["type"]
        served = {"address": address, "state": state}
        more = ["watch.js"] if address else []
        parts = {
            "title": html.escape(self.title),
            "caption": html.escape(str(self.scene["caption"])),
            "policy": _SERVED if address else _ALONE,
            "style": source("palette.css") + source("report.css", folder=_BROWSER),
            "body": source(f"{kind}.html", folder=_BROWSER),
            "cards": self.cards,
            "data": embedded({**self.scene, **served, "title": self.title}),
            "script": script(*_SHARED, *_SCRIPTS[kind], *more),
        }
        return filled(source("report.html", folder=_BROWSER), parts)


def page_of(
    subject: Subject,
    report: Report,
    read: Read = runs.dataset,
    *,
    folder: Path | None = None,
) -> Page:
    """The page of a run, a sweep or a comparison.

    Args:
        subject: what is shown; no verification, which has a page of its own.
        report: called with the number of frames that are done, and of all.
        read: gives the dataset of a run, with attention matrices to see them.
        folder: where its commands are typed; where the subject lies if `None`.

    Raises:
        InputFileError: if a file of it is missing or of another shape.
        StoreError: if it is damaged, or holds no frame yet.
        InvalidInputError: if no frame of it is finite.
    """
    place = (folder or subject.path.parent).absolute()
    if subject.kind == "comparison":
        sides = ComparedRuns(subject.path, subject.record)
        title = f"Comparison: {runs.subject(sides.spec)}"
        return Page(title, sides.scene, sides.cards(place))
    if subject.kind == "sweep":
        cells = runs.sweep_dataset(subject.path)
        store = runs.SweepStore.open(subject.path)
        title = str(cells.attrs["title"]) or "Phase diagram"
        scene = sweep_scene(cells, store, place)
        return Page(title, scene, sweep_cards(cells, store, place))
    dataset = read(subject.path).load()  # all of it is read, and more than once
    scene = run_scene(dataset, report)
    cards = run_cards(dataset, scene["notes"], place)
    return Page(str(dataset.attrs["title"]), scene, cards)


def save_report(
    subject: Subject,
    path: Path,
    report: Report,
    read: Read = runs.dataset,
    *,
    title: str | None = None,
) -> Path:
    """Write the page of a subject to `path`, to which `.html` is added if need be.

    Args:
        subject: what is shown.
        path: of the file.
        report: as `page_of` calls it.
        read: as `page_of` does.
        title: in place of what was computed; a verification has none.

    Raises:
        InvalidInputError: if the suffix is another one, or as `page_of` does.
        ResourceError: if the file cannot be written.
        InputFileError: as `page_of`.
        StoreError: as `page_of`.
    """
    file = page_file(path)
    if subject.kind == "verification":
        return written(file, _verification_page(subject.path, subject.record))
    page = page_of(subject, report, read, folder=file.parent)
    return written(file, page.titled(title).as_html())


def _verification_page(file: Path, record: Mapping[str, Any]) -> str:
    """The page of the statements, their controls, numbers and plots, with filters.

    Raises:
        InputFileError: if the record is not what `meanfield verify --json` prints.
    """
    try:
        return statements_page(record)
    except _FAULTS as error:
        raise InputFileError(
            f"`{file}` is not what `meanfield verify --json` prints "
            f"({type(error).__name__}: {error}); measure anew."
        ) from error
