"""A flow that a browser integrates, as one HTML file. Loaded at first use."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._keys import REFUSED, UNLISTED, check_axes
    from ._law import Law, law_of
    from ._page import live_page, save_live_page
    from ._setting import Setting, setting_of

__all__ = [
    "REFUSED",
    "UNLISTED",
    "Law",
    "Setting",
    "check_axes",
    "law_of",
    "live_page",
    "save_live_page",
    "setting_of",
]

_HOMES = {
    "REFUSED": "._keys",
    "UNLISTED": "._keys",
    "Law": "._law",
    "Setting": "._setting",
    "check_axes": "._keys",
    "law_of": "._law",
    "live_page": "._page",
    "save_live_page": "._page",
    "setting_of": "._setting",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
