"""Self-contained HTML pages. Names are imported lazily."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._bundle import bundle as bundle
    from ._bundle import expose as expose
    from ._mathml import typeset as typeset
    from ._statements_page import save_statements_page as save_statements_page
    from ._statements_page import statements_page as statements_page
    from ._writing import ASSETS as ASSETS
    from ._writing import embed_json as embed_json
    from ._writing import fill_template as fill_template
    from ._writing import page_file as page_file
    from ._writing import source as source
    from ._writing import write_page as write_page

__getattr__, __dir__, __all__ = lazy_exports(__name__)
