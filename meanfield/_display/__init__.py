"""How objects show themselves: a line of text, and a card in a notebook; no JAX.

Registries show themselves too, and every command has them: pictures and numbers, which
need NumPy, are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

from ._card import Card as Card
from ._card import Shown as Shown
from ._card import cards as cards
from ._card import listed as listed

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

__getattr__, __dir__, __all__ = lazy(__name__)
