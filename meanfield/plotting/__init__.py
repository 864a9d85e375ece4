"""Pictures of runs: an xarray `Dataset` in, a matplotlib `Figure` out; never JAX.

Names are loaded at first use, so importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._observables import (
        ClusterCounts,
        cluster_counts,
        cluster_radius,
        covariances,
        effective_rank,
    )
    from ._output import save
    from ._style import style
    from .animation import animate
    from .gallery import panels

__all__ = [
    "ClusterCounts",
    "animate",
    "cluster_counts",
    "cluster_radius",
    "covariances",
    "effective_rank",
    "panels",
    "save",
    "style",
]

_HOMES = {
    "ClusterCounts": "._observables",
    "animate": ".animation",
    "cluster_counts": "._observables",
    "cluster_radius": "._observables",
    "covariances": "._observables",
    "effective_rank": "._observables",
    "panels": ".gallery",
    "save": "._output",
    "style": "._style",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
