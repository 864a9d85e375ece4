"""The same solid by n points and by 4n, through the same weights.

If a network has a mean-field limit, what it makes of a cloud depends on the law of its
points, and two clouds of that law come near each other as they grow. Points of a
surface are $n^{-1/2}$ apart in $W_2$, up to a logarithm, and so is what a Lipschitz map
makes of them; a pooled vector, a smooth function of the law, is $n^{-1/2}$ off too.
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


def clouds(n: int, draw: int) -> Clouds:
    """One solid of each of several kinds, always the same, by `n` points of its own."""
    made = []
    for number, kind in enumerate(KINDS):
        triangles = SOLIDS[kind](np.random.default_rng(number))
        rng = np.random.default_rng([number, n, draw])
        points = sample_surface(triangles, n, rng)
        made.append(points + rng.normal(scale=NOISE, size=points.shape))
    return standardise(np.stack(made))


def distances(x: Clouds, y: Clouds) -> float:
    r"""The root mean square of $W_2$ over solids, in units of the spread of `y`."""
    each = [
        wasserstein(_points(a), _points(b)).value for a, b in zip(x, y, strict=True)
    ]
    spread = np.mean((y - y.mean(axis=1, keepdims=True)) ** 2) * y.shape[2]
    return float(np.sqrt(np.mean(np.square(each)) / spread))


def _points(x: np.ndarray) -> Points:
    """Tokens in the precision that JAX has."""
    return Points.uniform(jnp.asarray(x))


@eqx.filter_jit
def through(
    network: SetNetwork, x: Float[Array, "solids n 3"]
) -> tuple[Float[Array, "solids n d"], Float[Array, "solids d"]]:
    """What a network makes of each point, and what it pools of all.

    One solid after another: sliced attention compares all pairs of points.
    """

    def of_cloud(points: Array) -> tuple[Array, Array]:
        mu = network.encode(points)
        return mu.tokens.x, network.pooling(mu)[0]

    return jax.lax.map(of_cloud, x)


def by_size(
    networks: Sequence[SetNetwork], sizes: Sequence[int]
) -> Mapping[str, np.ndarray]:
    """Distances between clouds of n and 4n points.

    `before` of the points themselves, by n; `tokens` and `pooled` of what each network
    makes of them, by network and n.
    """
    pairs = [(clouds(n, 0), clouds(4 * n, 1)) for n in sizes]
    made = [[_made(network, *pair) for pair in pairs] for network in networks]
    return {
        "before": np.array([distances(*pair) for pair in pairs]),
        "tokens": np.array([[tokens for tokens, _ in own] for own in made]),
        "pooled": np.array([[pooled for _, pooled in own] for own in made]),
    }


def _made(network: SetNetwork, x: Clouds, y: Clouds) -> tuple[float, float]:
    (x, p), (y, q) = (
        map(np.asarray, through(network, jnp.asarray(z, jnp.float32))) for z in (x, y)
    )
    each = np.sum((p - q) ** 2, axis=1)
    spread = np.sum((q - q.mean(axis=0)) ** 2, axis=1)
    return distances(x, y), float(np.sqrt(each.mean() / spread.mean()))


def slope(sizes: Sequence[int], values: Float[np.ndarray, " n"]) -> float:
    """The power of n that distances go by."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
