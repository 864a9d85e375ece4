"""Pages: one HTML file each, which fetches nothing. Loaded at first use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._cone_page import cone_page, save_page
    from ._mathml import typeset
    from ._statements_page import save_statements_page, statements_page
    from ._writing import page_file

__all__ = [
    "cone_page",
    "page_file",
    "save_page",
    "save_statements_page",
    "statements_page",
    "typeset",
]

_HOMES = {
    "cone_page": "._cone_page",
    "page_file": "._writing",
    "save_page": "._cone_page",
    "save_statements_page": "._statements_page",
    "statements_page": "._statements_page",
    "typeset": "._mathml",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
