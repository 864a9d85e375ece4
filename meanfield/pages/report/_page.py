"""A report as a self-contained HTML page."""

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanfield import runs
from meanfield.errors import InputFileError
from meanfield.plotting import label_runs
from meanfield.plotting.pages import (
    ASSETS,
    embed_json,
    expose,
    fill_template,
    page_file,
    source,
    statements_page,
    write_page,
)

from ._comparison import ComparedRuns
from ._run import run_cards, run_scene
from ._several import joint_cards, joint_scene
from ._subject import Subject
from ._sweep import sweep_cards, sweep_scene

if TYPE_CHECKING:
    import xarray

_FAULTS = (AttributeError, LookupError, TypeError, ValueError)
_BROWSER = Path(__file__).parent / "browser"
_COMMON_SCRIPTS = ("data.js", "colours.js", "elements.js", "copy.js")
_SCRIPTS = {
    "flow": (
        "camera.js",
        "flow.js",
        "boxes.js",
        "dots.js",
        "density.js",
        "ellipse.js",
        "stage.js",
        "panes.js",
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
_OFFLINE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
_SERVER_POLICY = f"{_OFFLINE_POLICY}; connect-src 'self'"

Report = Callable[[int, int], None]
Read = Callable[[Path], "xarray.Dataset"]


def script(*names: str) -> str:
    """The scripts of a report, preceded by the modules common to all pages."""
    modules = (ASSETS / f"{name}.js" for name in ("scales", "palette", "cone"))
    return expose(*modules) + source(*names, folder=_BROWSER)


@dataclass(frozen=True)
class Page:
    """The content of a report page.

    Attributes:
        title: the title of the page.
        scene: the data that the page draws, in values that JSON can represent.
        cards: the text sections of the page, as HTML.
    """

    title: str
    scene: dict[str, Any]
    cards: str

    def retitle(self, title: str | None) -> "Page":
        """The page with another title, if one is given."""
        return replace(self, title=title) if title else self

    def as_json(self, state: str) -> str:
        """The page as JSON, for a browser that updates an older page."""
        head = {"title": self.title, "cards": self.cards, "state": state}
        return embed_json({**head, "scene": self.scene})

    def as_html(self, *, address: str = "", state: str = "") -> str:
        """The page as an HTML document.

        Args:
            address: where to fetch newer pages as JSON; if empty, there are no updates.
            state: identifies what the page shows; newer pages have another state.
        """
        kind = self.scene["type"]
        connection = {"address": address, "state": state}
        more = ["watch.js"] if address else []
        parts = {
            "title": html.escape(self.title),
            "caption": html.escape(str(self.scene["caption"])),
            "policy": _SERVER_POLICY if address else _OFFLINE_POLICY,
            "style": source("palette.css") + source("report.css", folder=_BROWSER),
            "body": source(f"{kind}.html", folder=_BROWSER),
            "cards": self.cards,
            "data": embed_json({**self.scene, **connection, "title": self.title}),
            "script": script(*_COMMON_SCRIPTS, *_SCRIPTS[kind], *more),
        }
        return fill_template(source("report.html", folder=_BROWSER), parts)


def page_of(
    subject: Subject,
    report: Report,
    read: Read = runs.dataset,
    *,
    folder: Path | None = None,
) -> Page:
    """The page of a run, of several, of a sweep or of a comparison.

    Args:
        subject: runs, a sweep or a comparison; a verification has a page of its own.
        report: called with the numbers of finished frames and of all frames.
        read: returns the dataset of a run, with attention matrices if wanted.
        folder: where the page's commands are run; the subject's folder if `None`.

    Raises:
        InputFileError: if a file is missing or malformed.
        StoreError: if a store is damaged, or has no frame yet.
        InvalidInputError: if no frame is finite, or several runs do not fit together.
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
    if subject.kind == "runs":
        return _joint_page(subject.runs, report, read, place)
    dataset = read(subject.path).load()  # loaded once, then read several times
    scene = run_scene(dataset, report)
    cards = run_cards(dataset, scene["notes"], place)
    return Page(str(dataset.attrs["title"]), scene, cards)


def _joint_page(
    paths: Sequence[Path], report: Report, read: Read, folder: Path
) -> Page:
    names = [str(path).removesuffix(".zarr") for path in paths]
    data = [read(path).load() for path in paths]
    datasets = label_runs(dict(zip(names, data, strict=True)))
    scene = joint_scene(datasets, report)
    cards = joint_cards(datasets, scene["notes"], folder)
    return Page(" – ".join(datasets), scene, cards)


def save_report(
    subject: Subject,
    path: Path,
    report: Report,
    read: Read = runs.dataset,
    *,
    title: str | None = None,
) -> Path:
    """Write the page of a subject to `path`; `.html` is appended if it has no suffix.

    Args:
        subject: the runs, sweep, comparison or verification.
        path: path of the file.
        report: progress callback; see `page_of`.
        read: returns the dataset of a run; see `page_of`.
        title: title of the page; by default a description. Verifications ignore it.

    Raises:
        InvalidInputError: if `path` has another suffix, or as raised by `page_of`.
        ResourceError: if the file cannot be written.
        InputFileError: as raised by `page_of`.
        StoreError: as raised by `page_of`.
    """
    file = page_file(path)
    if subject.kind == "verification":
        return write_page(file, _verification_page(subject.path, subject.record))
    page = page_of(subject, report, read, folder=file.parent)
    return write_page(file, page.retitle(title).as_html())


def _verification_page(file: Path, record: Mapping[str, Any]) -> str:
    """The page of a verification; see `statements_page`.

    Raises:
        InputFileError: if the record is not an output of `meanfield verify --json`.
    """
    try:
        return statements_page(record)
    except _FAULTS as error:
        raise InputFileError(
            f"`{file}` is not an output of `meanfield verify --json` "
            f"({type(error).__name__}: {error}). Run the verification again."
        ) from error
