"""Kernels for sums over pairs of tokens on a CUDA device, loaded at their first use."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._exp2 import LOG2E as LOG2E
    from ._exp2 import exp2 as exp2
    from ._first_kernel import checked_method as checked_method
    from ._instructions import EXP2 as EXP2
    from ._instructions import is_entrywise as is_entrywise
    from ._launch import MAX_ROWS as MAX_ROWS
    from ._method import KernelSide as KernelSide
    from ._method import Mask as Mask
    from ._method import Method as Method
    from ._method import Terms as Terms
    from ._method import Tile as Tile
    from ._pair_sums import best_keys as best_keys
    from ._pair_sums import linked_sums as linked_sums

__getattr__, __dir__, __all__ = lazy_exports(__name__)
