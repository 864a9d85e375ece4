"""Pages: one HTML file each, which fetches nothing. Loaded at first use."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._bundle import bundle, expose
    from ._mathml import typeset
    from ._statements_page import save_statements_page, statements_page
    from ._writing import SHARED, embedded, filled, page_file, source, written

__all__ = [
    "SHARED",
    "bundle",
    "embedded",
    "expose",
    "filled",
    "page_file",
    "save_statements_page",
    "source",
    "statements_page",
    "typeset",
    "written",
]

_HOMES = {
    "SHARED": "._writing",
    "bundle": "._bundle",
    "embedded": "._writing",
    "expose": "._bundle",
    "filled": "._writing",
    "page_file": "._writing",
    "save_statements_page": "._statements_page",
    "source": "._writing",
    "statements_page": "._statements_page",
    "typeset": "._mathml",
    "written": "._writing",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
