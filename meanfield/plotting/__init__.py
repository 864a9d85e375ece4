"""Figures, movies and HTML pages that are made from datasets, without JAX.

Names are imported lazily, so importing this package is cheap.
"""

from typing import TYPE_CHECKING

from meanfield._lazy import lazy_exports

if TYPE_CHECKING:
    from meanfield.clusters import ClusterCounts as ClusterCounts
    from meanfield.clusters import cluster_counts as cluster_counts
    from meanfield.clusters import cluster_radius as cluster_radius

    from ._figure.joint import joint_panel as joint_panel
    from ._figure.look import Look as Look
    from ._figure.options import heads_of as heads_of
    from ._figure.options import height_of as height_of
    from ._figure.options import limits_of as limits_of
    from ._figure.options import width_of as width_of
    from ._figure.panels import Panel as Panel
    from ._figure.panels import attention_panel as attention_panel
    from ._figure.panels import draw_panel as draw_panel
    from ._figure.panels import panel as panel
    from ._figure.panels import titled_figure as titled_figure
    from ._figure.style import style as style
    from ._figure.styles import styles as styles
    from ._plots import Plots as Plots
    from ._writing.figures import figure_files as figure_files
    from ._writing.figures import save as save
    from ._writing.files import output_path as output_path
    from ._writing.files import write_file as write_file
    from ._writing.film import Film as Film
    from ._writing.film import size_of as size_of
    from .animation import animate as animate
    from .comparison import draw_comparison as draw_comparison
    from .cone.cone import draw_cone as draw_cone
    from .cone.disc import EscapeDirections as EscapeDirections
    from .cone.disc import draw_disc as draw_disc
    from .cone.disc import escape_directions as escape_directions
    from .cone.page import cone_page as cone_page
    from .cone.page import save_page as save_page
    from .cone.paths import cone_coordinates as cone_coordinates
    from .density.token_overlay import with_tokens as with_tokens
    from .distances import draw_distances as draw_distances
    from .gallery import attention_panels as attention_panels
    from .gallery import joint_panels as joint_panels
    from .gallery import panels as panels
    from .heads import draw_head_eigenvalues as draw_head_eigenvalues
    from .layers import draw_layers as draw_layers
    from .numbers import observed_numbers as observed_numbers
    from .pages import save_statements_page as save_statements_page
    from .pages import statements_page as statements_page
    from .pages import typeset as typeset
    from .reading.coordinates import relative as relative
    from .reading.data import spec_and_ending as spec_and_ending
    from .reading.description import is_flat as is_flat
    from .reading.labels import label_runs as label_runs
    from .reading.observables import covariances as covariances
    from .reading.observables import effective_rank as effective_rank

__getattr__, __dir__, __all__ = lazy_exports(__name__)
