"""Pages: one HTML file each, which fetches nothing. Loaded at first use."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._bundle import bundle as bundle
    from ._bundle import expose as expose
    from ._mathml import typeset as typeset
    from ._statements_page import save_statements_page as save_statements_page
    from ._statements_page import statements_page as statements_page
    from ._writing import SHARED as SHARED
    from ._writing import embedded as embedded
    from ._writing import filled as filled
    from ._writing import page_file as page_file
    from ._writing import source as source
    from ._writing import written as written

__getattr__, __dir__, __all__ = lazy(__name__)
