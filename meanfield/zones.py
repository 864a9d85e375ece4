r"""Cells of a sphere in one angle: volumes, weights, moments and order parameters.

On the circle the angle is $\theta \in [-\pi, \pi]$; on $S^{d-1}$, $d \ge 3$, it is the
angle to an axis, $\theta \in [0, \pi]$, and the cells are zones. All cells have the
same width in $\theta$. Runs, files and plots share these formulas, which use NumPy
and SciPy only, or JAX for arrays of JAX.
"""

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Float

from meanfield.cells import centres, point_masses
from meanfield.frame_numbers import normalised_gegenbauer

if TYPE_CHECKING:
    from jaxtyping import Array

    A = TypeVar("A", np.ndarray, Array)
else:
    A = TypeVar("A")  # naming JAX's array type would import JAX

N_ORDERS = 8  # number of stored order parameters


def zone_edges(n: int, d: int) -> Float[np.ndarray, " faces"]:
    """The angles of the faces of `n` cells of equal width.

    Examples:
        >>> from meanfield.zones import zone_edges
        >>> print(zone_edges(2, 3))
        [0.     1.5708 3.1416]
    """
    return np.linspace(-np.pi if d == 2 else 0.0, np.pi, n + 1)


def zone_volumes(n: int, d: int) -> Float[np.ndarray, " n"]:
    """The volumes of `n` cells, divided by the area of the sphere.

    Examples:
        >>> from meanfield.zones import zone_volumes
        >>> print(zone_volumes(3, 3))  # differences of (1 - cos θ)/2
        [0.25 0.5  0.25]
    """
    if d == 2:
        return np.full(n, 1 / n)
    edges, half = zone_edges(n, d), (d - 1) / 2
    caps = scipy.special.betainc(half, half, np.sin(edges / 2) ** 2)
    zones = np.diff(caps)  # without cancellation up to the equator only
    return np.where(centres(edges) <= np.pi / 2, zones, zones[::-1])


def zone_areas(n: int, d: int) -> Float[np.ndarray, " faces"]:
    """The areas of the faces of `n` cells, divided by the area of the sphere.

    Examples:
        >>> from meanfield.zones import zone_areas
        >>> print(zone_areas(2, 3))  # sin(θ)/2
        [0.  0.5 0. ]
    """
    if d == 2:
        return np.full(n + 1, 1 / (2 * np.pi))
    area = np.sin(zone_edges(n, d)) ** (d - 2) / scipy.special.beta((d - 1) / 2, 0.5)
    area[[0, -1]] = 0
    return area


def zone_weights(masses: A, d: int) -> A:
    """Weights of the centres of the cells, exact to fourth order in their width.

    The last axis of `masses` runs over the cells.

    Examples:
        >>> from meanfield.zones import zone_weights
        >>> print(zone_weights(np.full(4, 0.25), 2))
        [0.25 0.25 0.25 0.25]
    """
    n, xp = masses.shape[-1], masses.__array_namespace__()
    if d > 2:
        return point_masses(masses, [xp.asarray(zone_edges(n, d))])
    wider = xp.concatenate([masses[..., -1:], masses, masses[..., :1]], axis=-1)
    return point_masses(wider, [xp.arange(n + 3) * 2 * np.pi / n])[..., 1:-1]


def zone_moments(masses: A, pole: Float[np.ndarray, " d"]) -> tuple[A, A]:
    """Mean `[..., d]` and covariance factor `[..., d, d]` of densities.

    Args:
        masses: masses of the cells, `[..., n]`.
        pole: the axis of zones, or the direction of angle zero on the circle.

    Examples:
        >>> from meanfield.zones import zone_moments, zone_volumes
        >>> mean, factor = zone_moments(zone_volumes(64, 3), np.eye(3)[0])
        >>> print(mean, 3 * (factor @ factor.T)[0, 0])  # a third in each direction
        [0. 0. 0.] 1.00000...
    """
    d, xp = len(pole), masses.__array_namespace__()
    weights, angles = zone_weights(masses, d), centres(zone_edges(masses.shape[-1], d))
    if d == 2:
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        mean = weights @ x
        deviations = xp.sqrt(weights)[..., None] * (x - mean[..., None, :])
        return mean, xp.swapaxes(xp.linalg.qr(deviations, mode="r"), -1, -2)
    cosines = np.cos(angles)
    first, second = weights @ cosines, weights @ cosines**2
    along = xp.sqrt(xp.maximum(second - first**2, 0))
    across = xp.sqrt(xp.maximum(1 - second, 0) / (d - 1))
    sizes = along[..., None] * pole + across[..., None] * (1 - pole)
    return first[..., None] * pole, sizes[..., None] * np.eye(d)


def zone_orders(
    masses: Float[np.ndarray, "*batch n"], d: int
) -> Float[np.ndarray, "*batch k"]:
    r"""Order parameters $|\int e^{ik\theta}d\mu|$, or $\int P_k(\cos\theta)\,d\mu$.

    $P_k$ is the Gegenbauer polynomial of the sphere, with $P_k(1) = 1$; $k$ is 1 to 8.

    Examples:
        >>> from meanfield.zones import zone_orders, zone_volumes
        >>> print(abs(zone_orders(zone_volumes(64, 3), 3)).max() < 1e-3)
        True
    """
    weights, degrees = zone_weights(masses, d), np.arange(1, N_ORDERS + 1)
    angles = centres(zone_edges(masses.shape[-1], d))
    if d == 2:
        return np.abs(weights @ np.exp(1j * np.outer(angles, degrees)))
    return weights @ normalised_gegenbauer(degrees, d, np.cos(angles)[:, None])
