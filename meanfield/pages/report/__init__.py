"""`meanfield report`: what was computed as one page. Loaded at first use."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._page import Page, page_of, save_report
    from ._serving import LOOPBACK, serve
    from ._subject import Subject, subject_of

__all__ = [
    "LOOPBACK",
    "Page",
    "Subject",
    "page_of",
    "save_report",
    "serve",
    "subject_of",
]

_HOMES = {
    "LOOPBACK": "._serving",
    "Page": "._page",
    "Subject": "._subject",
    "page_of": "._page",
    "save_report": "._page",
    "serve": "._serving",
    "subject_of": "._subject",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
