"""Short texts for numbers, and small SVG pictures made without a plotting library.

The pictures use the colour of the surrounding text, to suit light and dark themes.
"""

import base64
import html
from collections.abc import Callable, Mapping
from io import BytesIO

import numpy as np

from meanfield._counting import count_phrase

WIDTH, HEIGHT, MARGIN = 180, 140, 10
BLUE, ORANGE = "#0072B2", "#D55E00"
# At most `MAX_TOKENS` tokens and `MAX_PATHS` paths are drawn; if there are more, an
# evenly spaced subset is drawn.
MAX_TOKENS, MAX_PATHS = 400, 60
_CIRCLE = np.stack([f(np.linspace(0, 2 * np.pi, 61)) for f in (np.cos, np.sin)])


def cloud(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> str:
    """Picture of tokens in their first two coordinates, with their ellipse."""
    x = x[np.unique(np.linspace(0, len(x) - 1, MAX_TOKENS).astype(int))]
    outline = _outline(mean, covariance)
    place = _pixel_map(np.concatenate([_plane(x), outline]))
    dots = "".join(_dot(*spot) for spot in place(_plane(x)))
    return _svg(dots + _path(place(outline), ORANGE), count_phrase(len(x), "token"))


def paths(x: np.ndarray) -> str:
    """Picture of the paths of tokens (frames, n, d), with dots at their ends.

    Two coordinates are drawn; for d = 1, the frame index is on the horizontal axis.
    """
    indices = np.unique(np.linspace(0, x.shape[1] - 1, MAX_PATHS).astype(int))
    ways, is_line = np.swapaxes(x[:, indices, :2], 0, 1), x.shape[2] == 1
    if is_line:
        steps = np.broadcast_to(np.arange(len(x))[:, None], ways.shape)
        ways = np.concatenate([steps, ways], axis=2)
    place = _pixel_map(ways.reshape(-1, 2), even=not is_line)
    lines = "".join(_path(place(way), BLUE, opacity=0.5) for way in ways)
    dots = "".join(_dot(*place(way[-1])) for way in ways)
    return _svg(lines + dots, f"paths of {count_phrase(len(indices), 'token')}")


def ellipses(means: np.ndarray, covariances: np.ndarray) -> str:
    """Picture of the ellipses of k successive Gaussians, from pale to opaque.

    The ellipses lie one standard deviation from the means, in the first two
    coordinates. `means` has shape (k, d) and `covariances` has shape (k, d, d).
    """
    outlines = list(map(_outline, means, covariances))
    place = _pixel_map(np.concatenate(outlines))
    pairs = zip(outlines, _opacities(len(outlines)), strict=True)
    paths = (_path(place(line), ORANGE, opacity=opacity) for line, opacity in pairs)
    return _svg("".join(paths), "ellipse of one standard deviation")


def bells(means: np.ndarray, deviations: np.ndarray) -> str:
    """Picture of successive normal densities on the line, from pale to opaque."""
    wide = np.maximum(deviations, np.finfo(float).tiny)
    x = np.linspace(np.min(means - 4 * wide), np.max(means + 4 * wide), 241)
    z = (x - means[:, None]) / wide[:, None]
    lines = [np.stack([x, row], 1) for row in np.exp(-(z**2) / 2) / wide[:, None]]
    place = _pixel_map(np.concatenate(lines), even=False)
    pairs = zip(lines, _opacities(len(lines)), strict=True)
    paths = [_path(place(line), ORANGE, opacity=share) for line, share in pairs]
    return _svg("".join(paths), "normal density")


def curve(x: np.ndarray, y: np.ndarray) -> str:
    """Picture of a density on the line, with its axis."""
    points = np.stack([x, y], axis=1)
    axis = np.array([[x[0], 0.0], [x[-1], 0.0]])
    place = _pixel_map(np.concatenate([points, axis]), even=False)
    lines = _path(place(axis), "currentColor") + _path(place(points), BLUE)
    return _svg(lines, "density")


def cells(values: np.ndarray) -> str:
    """Picture of a density in the plane, dark where it is high; $x_1$ points right."""
    corner, size = (0.0, 0.0), (float(WIDTH), float(HEIGHT))
    return _svg(_raster(values.T[::-1], corner, size), "density")


def matrices(arrays: Mapping[str, np.ndarray]) -> str:
    """Picture of small matrices: positive entries blue, negative ones orange."""
    side = min(HEIGHT - 20, (WIDTH - 10 * (len(arrays) - 1)) / len(arrays))
    parts = []
    for i, (name, matrix) in enumerate(arrays.items()):
        left = i * (side + 10)
        parts.append(_raster(matrix, (left, 18.0), (side, side)))
        parts.append(
            f"<text x='{left}' y='12' fill='currentColor' font-size='12'>"
            f"{html.escape(name)}</text>"
        )
    return _svg("".join(parts), "matrices")


def _opacities(count: int) -> np.ndarray:
    """Opacities of `count` successive lines, which increase to 1."""
    return np.linspace(1, 0.25, count)[::-1]


def _plane(x: np.ndarray) -> np.ndarray:
    """The first two coordinates of points; the second is 0 if d = 1."""
    flat = x[:, :2]
    return flat if flat.shape[1] == 2 else np.pad(flat, ((0, 0), (0, 1)))


def _outline(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The ellipse at one standard deviation, in the first two coordinates."""
    values, vectors = np.linalg.eigh(covariance[:2, :2])
    root = vectors * np.sqrt(np.maximum(values, 0))
    return _plane((mean[:2, None] + root @ _CIRCLE[: len(values)]).T)


def _pixel_map(
    points: np.ndarray, *, even: bool = True
) -> Callable[[np.ndarray], np.ndarray]:
    """Map from coordinates to pixels; one scale for both axes if `even`."""
    points = points[np.isfinite(points).all(axis=1)]
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    span = np.where(high > low, high - low, 1.0)
    scale = np.full(2, np.min(room / span)) if even else room / span
    middle, centre = (low + high) / 2, np.array([WIDTH, HEIGHT]) / 2
    return lambda places: centre + (places - middle) * scale * np.array([1, -1])


def _dot(a: float, b: float) -> str:
    place = f"cx='{a:.1f}' cy='{b:.1f}'"
    return f"<circle {place} r='1.6' fill='{BLUE}' fill-opacity='.6'/>"


def _path(points: np.ndarray, colour: str, opacity: float = 1.0) -> str:
    steps = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return (
        f"<polyline points='{steps}' fill='none' stroke='{colour}' "
        f"stroke-width='1.5' stroke-opacity='{opacity:.2f}'/>"
    )


def _raster(
    values: np.ndarray, corner: tuple[float, float], size: tuple[float, float]
) -> str:
    """A matrix as an image; zero is transparent."""
    from PIL import Image  # imported here, since texts of objects need no pictures

    (x, y), (width, height) = corner, size
    top = np.max(np.abs(values), initial=0) or 1.0
    share = np.nan_to_num(values / top)
    hue = lambda colour: [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    rgb = np.where((share < 0)[..., None], hue(ORANGE), hue(BLUE))
    alpha = (255 * np.abs(share))[..., None]
    content = BytesIO()
    pixels = np.concatenate([rgb, alpha], -1).astype(np.uint8)
    Image.fromarray(pixels).save(content, "png")
    data = base64.b64encode(content.getvalue())
    return (
        f"<image x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
        "preserveAspectRatio='none' style='image-rendering:pixelated' "
        f"href='data:image/png;base64,{data.decode()}'/>"
    )


def _svg(body: str, label: str) -> str:
    return (
        f"<svg role='img' aria-label='{html.escape(label)}' width='{WIDTH}' "
        f"height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"xmlns='http://www.w3.org/2000/svg'>{body}</svg>"
    )


LARGEST = 3  # largest number of rows or columns of a matrix that is written out
_ROUNDING = 1e-12  # fraction of the largest entry up to which an entry is shown as 0


def number(value: object) -> str:
    """A number with three significant digits."""
    return f"{float(np.asarray(value)):.3g}"


def matrix(values: np.ndarray, scale: float = 0.0) -> str:
    """Text of a vector or matrix: its entries, or its shape if it is large.

    Entries that are rounding errors relative to the largest one, or to `scale`, are
    written as 0.
    """
    array = np.asarray(values)
    if max(array.shape, default=1) > LARGEST:
        return f"({' × '.join(map(str, array.shape))})"
    small = np.abs(array) <= _ROUNDING * np.max(np.abs(array), initial=scale)
    return _entries(np.where(small, 0.0, array).tolist())


def _entries(entry: list | float) -> str:
    if isinstance(entry, list):
        return f"[{', '.join(map(_entries, entry))}]"
    return number(entry)
