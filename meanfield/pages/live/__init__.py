"""HTML pages on which the browser integrates a flow. Names are imported lazily."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._keys import HIDDEN_KEYS as HIDDEN_KEYS
    from ._keys import UNSUPPORTED_KEYS as UNSUPPORTED_KEYS
    from ._keys import check_axes as check_axes
    from ._keys import check_keys as check_keys
    from ._law import Law as Law
    from ._law import law_of as law_of
    from ._page import N_TOKENS_SINKHORN as N_TOKENS_SINKHORN
    from ._page import LivePage as LivePage
    from ._page import live as live
    from ._page import live_page as live_page
    from ._page import page_of_spec as page_of_spec
    from ._setting import Setting as Setting
    from ._setting import setting_of as setting_of

__getattr__, __dir__, __all__ = lazy_exports(__name__)
