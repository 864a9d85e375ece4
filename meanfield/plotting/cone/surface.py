"""The cone of covariances as a translucent surface, and the `limit` inside it."""

import numpy as np
import xarray as xr
from matplotlib.colors import to_rgba
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from mpl_toolkits.mplot3d.axes3d import Axes3D

from meanfield.errors import InvalidInputError
from meanfield.plotting._figure.look import Look
from meanfield.plotting._figure.parts import draw_lines
from meanfield.plotting._figure.style import GREY, INK, LIMIT_COLOUR, PALE
from meanfield.plotting.reading.data import values

from .paths import ring_heights

# Parts with larger numbers are drawn later. The tips of paths lie inside the cone, so
# the front of the cone covers them.
BACK, BACK_PATHS, AXIS, LIMIT, FRONT_PATHS, TIPS, FRONT = range(1, 8)
_ELEVATION, _AZIMUTH, HEIGHT = 17.0, -62.0, 0.92
# In the picture, a unit of trace is `_STRETCH` times as long as a unit of the other
# coordinates.
_STRETCH = 2 * HEIGHT
# The angle from the viewer's azimuth at which the surface is seen edge-on: with heights
# stretched by s, the normal is (cos φ, sin φ, -1/s).
_HALF_ANGLE = float(np.arccos(np.tan(np.radians(_ELEVATION)) / _STRETCH))
# The axes of the floor have at most `_TICKS` intervals between ticks, or `_FEW_TICKS`
# if the zoom is at most `_NARROW`, because labels are then large.
_TICKS, _FEW_TICKS, _NARROW = 5, 2, 0.9
_GLASS, _EDGE = "#7d9fc2", "#6d86a1"
# A direction whose relative distance from the cone is at most `_ROUNDING` is taken to
# lie on the surface of the cone.
_ROUNDING = 1e-6


def view_direction() -> np.ndarray:
    """The vector whose dot product with a point increases towards the viewer."""
    elevation, azimuth = np.radians([_ELEVATION, _AZIMUTH])
    flat = np.cos(elevation) * np.array([np.cos(azimuth), np.sin(azimuth)])
    return np.array([*flat, _STRETCH * np.sin(elevation)])


def draw_surface(axes: Axes3D, height: float, look: Look) -> None:
    """Draw the cone up to `height`: surface, rings at ticks of the trace, axis."""
    _frame(axes, height, look)
    rings = ring_heights(height)
    axes.set(zticks=[0.0, *rings])
    azimuth, half = np.radians(_AZIMUTH), _HALF_ANGLE
    front = azimuth + np.linspace(-half, half, 61)
    back = azimuth + np.linspace(half, 2 * np.pi - half, 61)
    for angles, layer in ((front, FRONT), (back, BACK)):
        _glass(axes, angles, height, layer)
        _lines(axes, [z * _circle(angles) for z in rings], _EDGE, 0.5, layer)
        _lines(axes, [height * _circle(angles)], _EDGE, 1.0, layer)
    silhouette = [height * np.outer([0.0, 1.0], ray) for ray in _circle(front[[0, -1]])]
    _lines(axes, silhouette, _EDGE, 1.0, FRONT)
    axis = height * np.array([[0, 0, 0], [0, 0, 1]])
    dashes = {"color": INK, "linestyle": (0, (5, 3)), "linewidth": 0.9}
    axes.plot(*axis.T, **dashes, zorder=AXIS)


def draw_limit(axes: Axes3D, outline: np.ndarray) -> None:
    """Draw the limit ray or triangle with the vertices `outline`."""
    if len(outline) == 2:
        ray = {"color": LIMIT_COLOUR, "linewidth": 2.6, "alpha": 0.9}
        axes.plot(*outline.T, **ray, zorder=LIMIT)
        return
    face, edge = to_rgba(LIMIT_COLOUR, 0.22), to_rgba(LIMIT_COLOUR, 0.9)
    patch = Poly3DCollection([outline], zorder=LIMIT)
    patch.set(facecolor=face, edgecolor=edge, linewidth=0.9)
    axes.add_collection3d(patch, autolim=False)


def _circle(angles: np.ndarray) -> np.ndarray:
    """Points of the cone at height one, (n, 3)."""
    return np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=-1)


def _glass(axes: Axes3D, angles: np.ndarray, height: float, layer: int) -> None:
    """Draw part of the surface, denser towards its edges, where it is seen edge-on.

    Nested translucent sheets give a gradient without seams. More sheets would have to
    be fainter, and would then be lost to the rounding of colours.
    """
    first, last = angles[0], angles[-1]
    edges = (last - first) / 2 * np.geomspace(0.02, 0.9, 10)
    spans = [(first, last)]
    spans += [(first, first + edge) for edge in edges]
    spans += [(last - edge, last) for edge in edges]
    sheets = [
        height * np.concatenate([np.zeros((1, 3)), _circle(np.linspace(*span, 61))])
        for span in spans
    ]
    colours = [to_rgba(_GLASS, 0.09), *[to_rgba(_GLASS, 0.035)] * (len(spans) - 1)]
    glass = Poly3DCollection(sheets, facecolors=colours, linewidths=0, zorder=layer)
    glass.set_rasterized(True)
    axes.add_collection3d(glass, autolim=False)


def _lines(
    axes: Axes3D, lines: list[np.ndarray], colour: str, width: float, layer: int
) -> None:
    share = 0.75 if layer == FRONT else 0.4
    shade = to_rgba(colour, share)
    draw_lines(axes, lines, shade, linewidths=width, zorder=layer)


def _frame(axes: Axes3D, height: float, look: Look) -> None:
    """Set limits, labels and view; rings replace the grid."""
    axes.set_proj_type("ortho")
    axes.view_init(elev=_ELEVATION, azim=_AZIMUTH)
    zoom = look.zoom(6.6)
    axes.set_box_aspect((1, 1, HEIGHT), zoom=1.12 * zoom)  # pyright: ignore[reportArgumentType]
    axes.set(xlim=(-height, height), ylim=(-height, height), zlim=(0, height))
    axes.set(xlabel="$a - b$", ylabel="$2c$", zlabel=r"$a + b = \mathrm{tr}\,\Sigma$")
    axes.locator_params(nbins=_TICKS if zoom > _NARROW else _FEW_TICKS)
    axes.grid(visible=False)
    floor = height * np.array([[-1, -1, 0], [-1, 1, 0], [1, 1, 0]])
    axes.plot(*floor.T, color=PALE, linewidth=0.8, zorder=0)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):  # the stubs declare 2D axes
        axis.pane.set_visible(False)  # pyright: ignore[reportAttributeAccessIssue]
        axis.line.set_color(GREY)  # pyright: ignore[reportAttributeAccessIssue]
    axes.computed_zorder = False


def limit_outline(dataset: xr.Dataset, height: float) -> np.ndarray | None:
    r"""The part of `limit` in the cone $\sqrt{x^2 + y^2} \le z \le$ `height`.

    The variable `limit(limit, cone)` contains one direction $(x, y, z)$, for a ray from
    the apex, or two, for the plane that they span.

    Returns:
        The vertices: apex and tip of the ray, or the apex and the two upper corners of
        the triangle in which the plane meets the cone. None without a `limit`.

    Raises:
        InvalidInputError: if `limit` is not one or two vectors of three finite numbers,
            if it meets the cone only in its apex, or if its two vectors are parallel.
    """
    if "limit" not in dataset:
        return None
    vectors = values(dataset, "limit", ("limit", "cone"))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    sound = np.isfinite(vectors).all() and np.all(norms > 0)
    if not sound or vectors.shape not in ((1, 3), (2, 3)):
        raise InvalidInputError(
            "`limit` must be one or two vectors (x, y, z) that are finite and nonzero; "
            f"got {vectors.tolist()}."
        )
    directions = vectors / norms
    top = _ray_top(directions[0]) if len(vectors) == 1 else _plane_top(*directions)
    return height * np.concatenate([np.zeros((1, 3)), top])


def _ray_top(direction: np.ndarray) -> np.ndarray:
    """The point where a ray meets the plane $z = 1$."""
    x, y, z = direction
    if z <= 0 or np.hypot(x, y) > (1 + _ROUNDING) * z:
        raise InvalidInputError(
            f"`limit` must point into the cone z >= |(x, y)|; got {direction.tolist()}."
        )
    return direction[None] / z


def _plane_top(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The ends of the chord along which a plane meets the disc of height one."""
    normal = np.cross(u, v)
    if np.linalg.norm(normal) <= _ROUNDING:
        raise InvalidInputError(
            "The two vectors of `limit` must not be parallel, since they define a "
            f"plane; got {u.tolist()} and {v.tolist()}."
        )
    flat_norm = np.hypot(normal[0], normal[1])
    if abs(normal[2]) > (1 + _ROUNDING) * flat_norm:
        raise InvalidInputError(
            "The plane spanned by the two vectors of `limit` must contain a nonzero "
            "covariance; it meets the cone only in its apex. Use other vectors."
        )
    direction = normal[:2] / flat_norm
    distance = np.clip(-normal[2] / flat_norm, -1.0, 1.0)
    half = np.sqrt(1 - distance**2) * np.array([-direction[1], direction[0]])
    corners = distance * direction + np.stack([half, -half])
    return np.column_stack([corners, np.ones(2)])
