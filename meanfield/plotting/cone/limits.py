"""Intersection of the cone with the `limit` of a dataset, a ray or a plane."""

import numpy as np
import xarray as xr

from meanfield.errors import InvalidInputError
from meanfield.plotting.reading.data import values

# A direction whose relative distance from the cone is at most `_ROUNDING` is taken to
# lie on the surface of the cone.
_ROUNDING = 1e-6


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
