"""`meanfield report`: results as one HTML page. Names are imported lazily."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._page import Page as Page
    from ._page import page_of as page_of
    from ._page import save_report as save_report
    from ._serving import LOOPBACK as LOOPBACK
    from ._serving import serve as serve
    from ._subject import Subject as Subject
    from ._subject import subject_of as subject_of

__getattr__, __dir__, __all__ = lazy_exports(__name__)
