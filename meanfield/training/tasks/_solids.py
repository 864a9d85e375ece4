"""Sixteen kinds of solids as triangle meshes, with random proportions.

They form groups that are easily confused: cylinders and prisms; cone, pyramid and
frustum; ellipsoid and superquadric; torus and knot; table, stool and chair; stairs and
ramp. Lengths are of order one.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Triangles = Float[np.ndarray, "triangles 3 3"]
Generator = np.random.Generator
Lengths = tuple[float | int, float | int, float | int]
N_ANGLES = 48  # number of sides of polygons that approximate circles
STEPS = 4  # number of steps of the stairs


def surface(grid: Float[np.ndarray, "m n 3"]) -> Triangles:
    """Triangle mesh of a surface given by a grid of points."""
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    halves = [np.stack(corners, axis=2) for corners in ((a, b, c), (a, c, d))]
    return np.concatenate([half.reshape(-1, 3, 3) for half in halves])


def _loft(
    sides: int, lower_radius: float, upper_radius: float, height: float
) -> Triangles:
    """Frustum between two regular polygons; the two polygons are included."""
    angles = 2 * np.pi * np.arange(sides + 1) / sides
    ring = lambda r, z: np.stack(
        [r * np.cos(angles), r * np.sin(angles), np.full_like(angles, z)], axis=1
    )
    profile = (0, 0), (lower_radius, 0), (upper_radius, height), (0, height)
    return surface(np.stack([ring(r, z) for r, z in profile]))


def _prism(sides: int) -> Callable[[Generator], Triangles]:
    def solid(rng: Generator) -> Triangles:
        radius = rng.uniform(0.35, 0.6)
        return _loft(sides, radius, radius, rng.uniform(0.9, 1.6))

    return solid


def _frustum(
    sides: int, top_ratio: tuple[float, float]
) -> Callable[[Generator], Triangles]:
    def solid(rng: Generator) -> Triangles:
        radius = rng.uniform(0.5, 0.8)
        top_radius = radius * rng.uniform(*top_ratio)
        return _loft(sides, radius, top_radius, rng.uniform(1, 1.6))

    return solid


def _superquadric(low: float, high: float) -> Callable[[Generator], Triangles]:
    """Superquadrics with exponents between `low` and `high`; 2 gives ellipsoids."""

    def solid(rng: Generator) -> Triangles:
        power = 2 / rng.uniform(low, high)
        u = np.linspace(-np.pi / 2, np.pi / 2, N_ANGLES)[:, None]
        v = np.linspace(-np.pi, np.pi, 2 * N_ANGLES)[None, :]
        signed_power = lambda x: np.sign(x) * np.abs(x) ** power
        profile = signed_power(np.cos(u)), signed_power(np.sin(u))
        x = profile[0] * signed_power(np.cos(v))
        y = profile[0] * signed_power(np.sin(v))
        z = profile[1] * np.ones_like(v)
        return surface(np.stack([x, y, z], axis=-1) * rng.uniform(0.5, 1, 3))

    return solid


def _tube(curve: Float[np.ndarray, "m 3"], radius: float) -> Triangles:
    """Tube around a closed curve, whose last point repeats the first."""
    tangent = np.gradient(curve[:-1], axis=0)
    ends = curve[1] - curve[-2]
    tangent[0] = tangent[-1] = ends
    tangent = np.concatenate([tangent, tangent[:1]])
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    first = np.cross(tangent, [0.0, 0.0, 1.0])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(tangent, first)
    angles = np.linspace(0, 2 * np.pi, N_ANGLES // 2)[None, :, None]
    ring = np.cos(angles) * first[:, None] + np.sin(angles) * second[:, None]
    return surface(curve[:, None] + radius * ring)


def _torus(rng: Generator) -> Triangles:
    t = np.linspace(0, 2 * np.pi, 2 * N_ANGLES)
    curve = np.stack([np.cos(t), np.sin(t), np.zeros_like(t)], axis=1)
    return _tube(curve, rng.uniform(0.2, 0.4))


def _knot(rng: Generator) -> Triangles:
    """The trefoil."""
    t = np.linspace(0, 2 * np.pi, 4 * N_ANGLES)
    lift = rng.uniform(0.5, 1.0)
    x = np.sin(t) + 2 * np.sin(2 * t)
    y = np.cos(t) - 2 * np.cos(2 * t)
    curve = np.stack([x, y, -lift * np.sin(3 * t)], axis=1) / 2
    return _tube(curve, rng.uniform(0.15, 0.25))


def box(middle: Lengths, size: Lengths) -> Triangles:
    """Box with a given centre and side lengths."""
    square = _loft(4, np.sqrt(0.5), np.sqrt(0.5), 1.0)
    turn = np.array([[1, 1, 0], [-1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    unit = square @ turn - np.array([0, 0, 0.5])
    return unit * np.array(size) + np.array(middle)


def _seat(rng: Generator, height: tuple[float, float]) -> tuple[list[Triangles], float]:
    """The meshes of a square board on four legs, and the width of the board."""
    width, top, thick = rng.uniform(0.8, 1.2), rng.uniform(*height), 0.08
    place = width / 2 - thick
    legs = [
        box((x, y, top / 2), (thick, thick, top))
        for x in (-place, place)
        for y in (-place, place)
    ]
    return [box((0, 0, top), (width, width, thick)), *legs], width


def _table(rng: Generator) -> Triangles:
    return np.concatenate(_seat(rng, (0.7, 1.0))[0]) * [1.4, 1.0, 0.8]


def _stool(rng: Generator) -> Triangles:
    return np.concatenate(_seat(rng, (0.9, 1.4))[0])


def _chair(rng: Generator) -> Triangles:
    parts, width = _seat(rng, (0.8, 1.1))
    top = float(parts[0][..., 2].mean())
    back = rng.uniform(0.6, 1.0)
    parts.append(box((0, width / 2, top + back / 2), (width, 0.08, back)))
    return np.concatenate(parts)


def _stairs(rng: Generator) -> Triangles:
    width, rise = rng.uniform(0.6, 1.0), rng.uniform(0.2, 0.3)
    steps = [
        box((0, 0.35 * i, rise * (i + 1) / 2), (width, 0.35, rise * (i + 1)))
        for i in range(STEPS)
    ]
    return np.concatenate(steps)


def _ramp(rng: Generator) -> Triangles:
    limits = (0.6, 1), (1.2, 1.6), (0.8, 1.2)
    width, length, rise = (rng.uniform(low, high) for low, high in limits)
    profile = np.array([[0, 0], [length, 0], [length, rise], [0, 0]])
    end = lambda x: np.column_stack([np.full(4, x), profile])
    middle = lambda x: np.tile([x, length, 0], (4, 1))
    grid = [middle(-width / 2), end(-width / 2), end(width / 2), middle(width / 2)]
    return surface(np.stack(grid))


SOLIDS: dict[str, Callable[[Generator], Triangles]] = {
    "cylinder": _prism(N_ANGLES),
    "triangular prism": _prism(3),
    "square prism": _prism(4),
    "hexagonal prism": _prism(6),
    "cone": _frustum(N_ANGLES, (0.0, 0.05)),
    "pyramid": _frustum(4, (0.0, 0.05)),
    "frustum": _frustum(N_ANGLES, (0.3, 0.6)),
    "ellipsoid": _superquadric(1.9, 2.1),
    "superquadric": _superquadric(3.0, 6.0),
    "torus": _torus,
    "knot": _knot,
    "table": _table,
    "stool": _stool,
    "chair": _chair,
    "stairs": _stairs,
    "ramp": _ramp,
}


def sample_surface(
    triangles: Triangles, count: int, rng: Generator
) -> Float[np.ndarray, "count 3"]:
    """Points drawn uniformly from the surface of a triangle mesh."""
    a, b, c = np.moveaxis(triangles, 1, 0)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    indices = rng.choice(len(areas), size=count, p=areas / areas.sum())
    u, v = rng.uniform(size=(2, count, 1))
    is_outside = u + v > 1  # these points are reflected into the triangle
    u, v = np.where(is_outside, 1 - u, u), np.where(is_outside, 1 - v, v)
    return a[indices] + u * (b - a)[indices] + v * (c - a)[indices]
