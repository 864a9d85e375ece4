"""Long pages as short ones: a page for each section, and a first page that lists them.

The files of the checkout stay whole, for readers of the source.
"""

import re
from pathlib import Path
from typing import NamedTuple

from borrowed import relinked
from sphinx.application import Sphinx

SECTION = r"^(?=## )"


class Long(NamedTuple):
    """A page to be divided.

    Attributes:
        file: the file in the checkout.
        start: pattern of the place before each section.
    """

    file: str
    start: str = SECTION


class Section(NamedTuple):
    """A page of a divided one.

    Attributes:
        name: its document, below the source of the site.
        title: its heading.
        text: its text, which begins with a heading of the first level.
        picture: its first picture, as a path beside the file; empty without.
    """

    name: str
    title: str
    text: str
    picture: str


LONG = {
    "speed": Long("docs/speed.md", r"^(?=## The machine )"),
    "errata": Long("docs/errata.md"),
    "generated/figures": Long("figures/README.md"),
}
HEADING = re.compile(r"^#(#+ )", re.MULTILINE)
PICTURE = re.compile(r"^!\[[^]]*\]\(([^)]*)\)", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the sections before anything is read, and lists them on the first page."""
    app.connect("builder-inited", write)
    app.connect("source-read", shorten)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:
    """Writes the page of each section."""
    docs = Path(app.srcdir)
    for document, page in LONG.items():
        for section in divide(docs, document)[1]:
            file = docs / f"{section.name}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            text = relinked(section.text, page.file, f"{section.name}.md")
            file.write_text(text, encoding="utf-8")


def shorten(app: Sphinx, name: str, source: list[str]) -> None:
    """Replaces the sections of a long page by links, with pictures if they have any."""
    if name in LONG:
        intro, sections = divide(Path(app.srcdir), name)
        intro = relinked(intro, LONG[name].file, f"{name}.md")
        source[0] = f"{intro}\n{listed(sections)}"


def divide(docs: Path, document: str) -> tuple[str, list[Section]]:
    """The text before the sections of a page, and its sections."""
    page = LONG[document]
    text = (docs.parent / page.file).read_text(encoding="utf-8")
    intro, *parts = re.split(page.start, text, flags=re.MULTILINE)
    folder = f"generated/{document.rpartition('/')[2]}"
    titles = [part.partition("\n")[0].removeprefix("## ") for part in parts]
    sections = [
        Section(
            f"{folder}/{number:02d}-{slug(title)}",
            title,
            raised(part),
            "".join(PICTURE.findall(part)[:1]),
        )
        for number, (title, part) in enumerate(zip(titles, parts, strict=True), 1)
    ]
    return intro, sections


def raised(part: str) -> str:
    """A part of a page as a page, with headings of consecutive levels."""
    title, _, text = part.partition("\n")
    below = text if "\n## " in text else HEADING.sub(r"\1", text)
    return f"{title[1:]}\n{below}"


def slug(title: str) -> str:
    """The words of a title, for the name of a file."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:40]


def listed(sections: list[Section]) -> str:
    """Links to sections: a grid of pictures, or a list; each also in the contents."""
    names = "\n".join(f"/{section.name}" for section in sections)
    contents = "```{{toctree}}\n:maxdepth: 1\n{}\n{}\n```\n".format
    if not sections[0].picture:
        return contents("", names)
    cells = [
        f"[![{s.title}](/../figures/{s.picture})<br>{s.title}](/{s.name}.md)"
        for s in sections
        if s.picture
    ]
    grid = ":::{{container}} pictures\n{}\n:::\n\n".format("\n\n".join(cells))
    return grid + contents(":hidden:\n", names)
