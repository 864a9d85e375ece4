r"""Distances between clouds of n and 4n points of a solid, in trained networks.

If a network has a mean-field limit, its output depends on the law of the points only,
and the outputs of two clouds of this law converge to each other. Two clouds of points
on one surface have a $W_2$ distance of order $n^{-1/2}$, up to a logarithm. Their
images under a Lipschitz map have a distance of the same order. A pooled vector is a
smooth function of the law, and has an error of this order as well.
"""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.distances import wasserstein
from meanfield.measures import Points
from meanfield.training.tasks._solids import SOLIDS, sample_surface
from meanfield.training.tasks.solids import NOISE, SetNetwork, standardise

KINDS = tuple(SOLIDS)[::2]
Clouds = Float[np.ndarray, "solids _ d"]


def draw_clouds(n: int, draw: int) -> Clouds:
    """Draws `n` points, with noise, on the surface of one solid of each kind.

    The solids are always the same. Different values of `draw` give independent points.
    """
    clouds = []
    for number, kind in enumerate(KINDS):
        triangles = SOLIDS[kind](np.random.default_rng(number))
        rng = np.random.default_rng([number, n, draw])
        points = sample_surface(triangles, n, rng)
        clouds.append(points + rng.normal(scale=NOISE, size=points.shape))
    return standardise(np.stack(clouds))


def relative_distance(x: Clouds, y: Clouds) -> float:
    r"""Root mean square of $W_2$ over solids, relative to the spread of `y`."""
    distances = [
        wasserstein(_points(a), _points(b)).value for a, b in zip(x, y, strict=True)
    ]
    spread = np.mean((y - y.mean(axis=1, keepdims=True)) ** 2) * y.shape[2]
    return float(np.sqrt(np.mean(np.square(distances)) / spread))


def _points(x: np.ndarray) -> Points:
    """Uniform tokens in the default precision of JAX."""
    return Points.uniform(jnp.asarray(x))


@eqx.filter_jit
def encode_and_pool(
    network: SetNetwork, x: Float[Array, "solids n 3"]
) -> tuple[Float[Array, "solids n d"], Float[Array, "solids d"]]:
    """The encoded points and the pooled vector of each solid.

    Solids are encoded one by one, since sliced attention compares all pairs of points.
    """

    def of_cloud(points: Array) -> tuple[Array, Array]:
        mu = network.encode(points)
        return mu.tokens.x, network.pooling(mu)[0]

    return jax.lax.map(of_cloud, x)


def measure_sizes(
    networks: Sequence[SetNetwork], sizes: Sequence[int]
) -> Mapping[str, np.ndarray]:
    """Relative distances between clouds of n and 4n points.

    Returns:
        `before` has the distances of the points themselves, by n. `tokens` and `pooled`
        have the distances of encoded points and of pooled vectors, by network and n.
    """
    pairs = [(draw_clouds(n, 0), draw_clouds(4 * n, 1)) for n in sizes]
    measurements = np.array(
        [[_measure_pair(network, *pair) for pair in pairs] for network in networks]
    )
    return {
        "before": np.array([relative_distance(*pair) for pair in pairs]),
        "tokens": measurements[..., 0],
        "pooled": measurements[..., 1],
    }


def _measure_pair(network: SetNetwork, x: Clouds, y: Clouds) -> tuple[float, float]:
    """Distances between the encoded points, and between the pooled vectors."""
    (x, p), (y, q) = (
        map(np.asarray, encode_and_pool(network, jnp.asarray(z, jnp.float32)))
        for z in (x, y)
    )
    squares = np.sum((p - q) ** 2, axis=1)
    spread = np.sum((q - q.mean(axis=0)) ** 2, axis=1)
    return relative_distance(x, y), float(np.sqrt(squares.mean() / spread.mean()))


def fit_power(sizes: Sequence[int], values: Float[np.ndarray, " n"]) -> float:
    """Exponent of n in a power law that is fitted to the values."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
