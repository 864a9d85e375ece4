"""The panel `cone`: paths of 2 × 2 covariances in the cone of semidefinite matrices."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.plotting._figure.look import look_of
from meanfield.plotting._figure.marks import Key, entry
from meanfield.plotting._figure.panels import registered_panel
from meanfield.plotting._figure.style import INK, LIMIT_COLOUR

from .ending_styles import (
    RASTER_POINTS,
    draw_path_lines,
    draw_tips,
    early_note,
    ending_handles,
    path_figure,
    width,
)
from .paths import (
    ConePath,
    clip_paths,
    cone_height,
    cone_paths,
    departures,
    group_by_ending,
)
from .surface import (
    BACK_PATHS,
    FRONT_PATHS,
    TIPS,
    draw_limit,
    draw_surface,
    limit_outline,
    view_direction,
)

AXIS = entry("isotropic", INK, linestyle="--", linewidth=0.9)

# Padding in inches that is added above and below the axes for labels twice as large as
# usual. It is proportional to the additional size.
_LIFT = 0.06


@registered_panel("cone")
def cone(dataset: xr.Dataset) -> Figure:
    r"""Paths of covariances in the cone $z \ge \sqrt{x^2 + y^2}$, coloured by ending.

    A covariance with entries $a, c, c, b$ is the point $(a - b, 2c, a + b)$. For tokens
    the covariance is weighted. Paths that blow up leave through the top.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` is invalid.
    """
    size = (6.6, 5.8)
    figure = path_figure(dataset, size, draw_cone, columns=5, projection="3d")
    _lift_labels(figure, look_of(dataset).scale)
    return figure


def _lift_labels(figure: Figure, scale: float) -> None:
    """Add padding for large labels of 3D axes; the layout engine ignores labels."""
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine) and scale > 1:
        engine.set(h_pad=engine.get()["h_pad"] + _LIFT * (scale - 1))


def draw_cone(axes: Axes3D, dataset: xr.Dataset) -> Key:
    """Draw the cone and its paths on 3D axes, and set their view and limits.

    The drawing order depends on the view, so the axes should not be turned afterwards.
    Paths are thinned with a tolerance of a thousandth of the height, less than half a
    pixel; in a vector file, many paths are rasterised.

    Returns:
        A key with legend entries, `handles`, and small print, `notes`.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` is invalid.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> from meanfield import runs, spec
        >>> from pathlib import Path
        >>> from meanfield.plotting import draw_cone
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "A": -1, "d": 2, "t": 1}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> axes = Figure().add_subplot(projection="3d")
        >>> key = draw_cone(axes, runs.dataset(Path("cone.zarr")))
    """
    with look_of(dataset).rc_context():
        return _draw(axes, dataset)


def _draw(axes: Axes3D, dataset: xr.Dataset) -> Key:
    paths = cone_paths(dataset, "cone")
    height = cone_height(paths)
    outline = limit_outline(dataset, height)
    clipped_paths = clip_paths(paths, height)
    draw_surface(axes, height, look_of(dataset))
    if outline is not None:
        draw_limit(axes, outline)
    is_large = sum(len(path.rows) for path in clipped_paths) > RASTER_POINTS
    for part, layer in _layers(clipped_paths, outline):
        going = [path for path in part if len(path.rows) > 1]
        lines = [path.points for path in going]
        threads = draw_path_lines(axes, lines, going, len(paths))
        threads.set(zorder=layer, rasterized=is_large)
    stays = [path for path in clipped_paths if not path.is_cut]
    tip_style = {"depthshade": False, "zorder": TIPS}
    draw_tips(axes, clipped_paths, stays, areas=(5.0, 18.0), **tip_style)
    _arrows(axes, clipped_paths, height)
    tallest = max(path.points[:, 2].max() for path in paths)
    cut = (
        f"cut at trace {height:.3g}, where arrows leave; traces go on to {tallest:.2g}"
    )
    handles = [*ending_handles(paths), AXIS, *limit_handles(outline)]
    inner_paths = [path for path in paths if path.points[-1, 2] <= height]
    notes = [cut if tallest > height else "", early_note(inner_paths)]
    return Key(handles, None, "", [line for line in notes if line])


def _layers(
    paths: Sequence[ConePath], outline: np.ndarray | None
) -> list[tuple[list[ConePath], int]]:
    """The paths behind and in front of a limit plane, sorted from far to near."""
    viewer = view_direction()
    depths = np.array([path.points.mean(axis=0) @ viewer for path in paths])
    sorted_paths = [paths[index] for index in np.argsort(depths)]
    if outline is None or len(outline) == 2:
        return [(sorted_paths, FRONT_PATHS)]
    normal = np.cross(outline[1], outline[2])
    normal = normal * np.sign(normal @ viewer)
    sides: dict[int, list[ConePath]] = {BACK_PATHS: [], FRONT_PATHS: []}
    for path in sorted_paths:
        is_near = path.points.mean(axis=0) @ normal >= 0
        sides[FRONT_PATHS if is_near else BACK_PATHS].append(path)
    return [(part, layer) for layer, part in sides.items()]


def _arrows(axes: Axes3D, paths: Sequence[ConePath], height: float) -> None:
    """Draw arrows where paths leave the picture."""
    thin = width(len(paths))
    cut = [path for path in paths if path.is_cut]
    for mark, group in group_by_ending(cut).items():
        feet, ways = departures([path.rows for path in group], height)
        arrows = axes.quiver(
            *feet.T, *ways.T, color=mark.colour, arrow_length_ratio=0.45
        )
        arrows.set(linewidth=1.3 * thin, zorder=TIPS, label="arrows")


def limit_handles(outline: np.ndarray | None) -> list[Artist]:
    """The legend entry of a limit ray or plane, if there is one."""
    if outline is None:
        return []
    if len(outline) == 2:
        return [entry("limits", LIMIT_COLOUR, linewidth=2.4)]
    return [Patch(color=LIMIT_COLOUR, alpha=0.4, label="limits")]
