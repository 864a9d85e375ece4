"""Stationary densities of noisy attention on spheres. Imported lazily."""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from ._branch import Branch as Branch
    from ._branch import follow_branch as follow_branch
    from ._equation import StateEquation as StateEquation
    from ._equation import check_attention as check_attention
    from ._equation import state_kinds as state_kinds
    from ._kernel import ZonalKernel as ZonalKernel
    from ._kernel import funk_hecke as funk_hecke

__getattr__, __dir__, __all__ = lazy_exports(__name__)
