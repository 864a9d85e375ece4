"""Pages of the checkout that stand outside docs/, and links that lead to them."""

import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

PAGES = {
    "README.md": "generated/readme.md",
    "CONTRIBUTING.md": "generated/contributing.md",
    "CHANGELOG.md": "generated/changelog.md",
    "figures/README.md": "generated/figures.md",
}
# Decisions are found through their README, and not in the bar beside each page.
LISTED_ELSEWHERE = "---\norphan: true\n---\n\n"
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([\w./-]+)(?=[)#])")


def setup(app: Sphinx) -> dict[str, bool]:
    """Copies the pages before anything is read, and mends links while pages are."""
    app.connect("builder-inited", copied)
    app.connect("source-read", mended)
    return {"parallel_read_safe": True}


def copied(app: Sphinx) -> None:
    """Writes the pages below `generated/`."""
    docs = Path(app.srcdir)
    (docs / "generated").mkdir(exist_ok=True)
    for place, page in PAGES.items():
        text = (docs.parent / place).read_text(encoding="utf-8")
        (docs / page).write_text(relinked(text, place, page), encoding="utf-8")


def mended(app: Sphinx, name: str, source: list[str]) -> None:
    """Makes links to those pages lead to their copies."""
    path = app.env.doc2path(name, base=False)
    if Path(path).suffix == ".md" and not name.startswith("generated/"):
        source[0] = relinked(source[0], f"docs/{path}", str(path))
    if name.startswith("decisions/2"):
        source[0] = LISTED_ELSEWHERE + source[0]


def relinked(text: str, place: str, page: str) -> str:
    """A page at `place` of the checkout as one at `page` of the docs.

    Links become relative to the new place; a folder is its README.
    """
    home = posixpath.dirname(f"docs/{page}")

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), link[1]))
        copy = f"docs/{PAGES[path]}" if path in PAGES else path
        return posixpath.relpath(copy, home)

    return LINK.sub(target, text)
