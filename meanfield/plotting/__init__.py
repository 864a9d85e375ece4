"""Pictures of runs, pages of reports: plain data in, a figure or HTML out; never JAX.

Names are loaded at first use, so importing this package costs next to nothing.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from ._cone_paths import cone_coordinates
    from ._escapes import EscapeDirections, escape_directions
    from ._files import named, put
    from ._observables import (
        ClusterCounts,
        cluster_counts,
        cluster_radius,
        covariances,
        effective_rank,
    )
    from ._output import save
    from ._panels import titled_figure
    from ._style import style
    from .animation import animate
    from .carried import with_tokens
    from .comparison import draw_comparison
    from .covariance_cone import draw_cone
    from .gallery import panels
    from .pages import (
        cone_page,
        save_page,
        save_statements_page,
        statements_page,
        typeset,
    )
    from .trace_one_disc import draw_disc

__all__ = [
    "ClusterCounts",
    "EscapeDirections",
    "animate",
    "cluster_counts",
    "cluster_radius",
    "cone_coordinates",
    "cone_page",
    "covariances",
    "draw_comparison",
    "draw_cone",
    "draw_disc",
    "effective_rank",
    "escape_directions",
    "named",
    "panels",
    "put",
    "save",
    "save_page",
    "save_statements_page",
    "statements_page",
    "style",
    "titled_figure",
    "typeset",
    "with_tokens",
]

_HOMES = {
    "ClusterCounts": "._observables",
    "EscapeDirections": "._escapes",
    "animate": ".animation",
    "cluster_counts": "._observables",
    "cluster_radius": "._observables",
    "cone_coordinates": "._cone_paths",
    "cone_page": ".pages",
    "covariances": "._observables",
    "draw_comparison": ".comparison",
    "draw_cone": ".covariance_cone",
    "draw_disc": ".trace_one_disc",
    "effective_rank": "._observables",
    "escape_directions": "._escapes",
    "named": "._files",
    "panels": ".gallery",
    "put": "._files",
    "save": "._output",
    "save_page": ".pages",
    "save_statements_page": ".pages",
    "statements_page": ".pages",
    "style": "._style",
    "titled_figure": "._panels",
    "typeset": ".pages",
    "with_tokens": ".carried",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
