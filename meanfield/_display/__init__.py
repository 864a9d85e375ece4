"""Displays of objects: one line of text, or a card in a notebook.

This package does not import JAX. Every command imports the registries, which have
displays too, so modules that need NumPy are imported lazily.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

from ._card import AbstractDisplayable as AbstractDisplayable
from ._card import Card as Card
from ._card import cards as cards
from ._card import html_table as html_table

if TYPE_CHECKING:
    from ._pictures import LARGEST as LARGEST
    from ._pictures import bells as bells
    from ._pictures import cells as cells
    from ._pictures import cloud as cloud
    from ._pictures import curve as curve
    from ._pictures import ellipses as ellipses
    from ._pictures import matrices as matrices
    from ._pictures import matrix as matrix
    from ._pictures import number as number
    from ._pictures import paths as paths

__getattr__, __dir__, __all__ = lazy_exports(__name__)
