"""Pictures of runs, pages of reports: plain data in, a figure or HTML out; never JAX.

Names are loaded at first use, so importing this package costs next to nothing.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy

if TYPE_CHECKING:
    from meanfield.clusters import ClusterCounts, cluster_counts, cluster_radius

    from ._figure.look import Look
    from ._figure.options import heads_of, height_of, limits_of, width_of
    from ._figure.panels import (
        Panel,
        attention_panel,
        draw_panel,
        panel,
        titled_figure,
    )
    from ._figure.style import style
    from ._figure.styles import styles
    from ._plots import Plots
    from ._writing.figures import figure_files, save
    from ._writing.files import named, put
    from ._writing.film import Film, size_of
    from .animation import animate
    from .comparison import draw_comparison
    from .cone.cone import draw_cone
    from .cone.disc import draw_disc
    from .cone.escapes import EscapeDirections, escape_directions
    from .cone.page import cone_page, save_page
    from .cone.paths import cone_coordinates
    from .density.carried import with_tokens
    from .gallery import attention_panels, panels
    from .heads import draw_head_eigenvalues
    from .layers import draw_layers
    from .pages import save_statements_page, statements_page, typeset
    from .reading.data import spec_and_ending
    from .reading.observables import covariances, effective_rank
    from .reading.relative import relative

__all__ = [
    "ClusterCounts",
    "EscapeDirections",
    "Film",
    "Look",
    "Panel",
    "Plots",
    "animate",
    "attention_panel",
    "attention_panels",
    "cluster_counts",
    "cluster_radius",
    "cone_coordinates",
    "cone_page",
    "covariances",
    "draw_comparison",
    "draw_cone",
    "draw_disc",
    "draw_head_eigenvalues",
    "draw_layers",
    "draw_panel",
    "effective_rank",
    "escape_directions",
    "figure_files",
    "heads_of",
    "height_of",
    "limits_of",
    "named",
    "panel",
    "panels",
    "put",
    "relative",
    "save",
    "save_page",
    "save_statements_page",
    "size_of",
    "spec_and_ending",
    "statements_page",
    "style",
    "styles",
    "titled_figure",
    "typeset",
    "width_of",
    "with_tokens",
]

_HOMES = {
    "ClusterCounts": "meanfield.clusters",
    "EscapeDirections": ".cone.escapes",
    "Film": "._writing.film",
    "Look": "._figure.look",
    "Panel": "._figure.panels",
    "Plots": "._plots",
    "animate": ".animation",
    "attention_panel": "._figure.panels",
    "attention_panels": ".gallery",
    "cluster_counts": "meanfield.clusters",
    "cluster_radius": "meanfield.clusters",
    "cone_coordinates": ".cone.paths",
    "cone_page": ".cone.page",
    "covariances": ".reading.observables",
    "draw_comparison": ".comparison",
    "draw_cone": ".cone.cone",
    "draw_disc": ".cone.disc",
    "draw_head_eigenvalues": ".heads",
    "draw_layers": ".layers",
    "draw_panel": "._figure.panels",
    "effective_rank": ".reading.observables",
    "escape_directions": ".cone.escapes",
    "limits_of": "._figure.options",
    "named": "._writing.files",
    "panel": "._figure.panels",
    "panels": ".gallery",
    "put": "._writing.files",
    "relative": ".reading.relative",
    "figure_files": "._writing.figures",
    "save": "._writing.figures",
    "save_page": ".cone.page",
    "save_statements_page": ".pages",
    "size_of": "._writing.film",
    "spec_and_ending": ".reading.data",
    "statements_page": ".pages",
    "style": "._figure.style",
    "styles": "._figure.styles",
    "titled_figure": "._figure.panels",
    "typeset": ".pages",
    "heads_of": "._figure.options",
    "height_of": "._figure.options",
    "width_of": "._figure.options",
    "with_tokens": ".density.carried",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
