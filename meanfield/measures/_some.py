"""Some of many tokens: the farthest, and others that stand for the rest."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ._points import Points


def some_of(mu: Points, count: int, *, far: int = 8) -> Points:
    """About so many tokens, in their order, of a measure like that of all.

    One in `far` is among the farthest from the mean, in standard deviations along
    principal axes, and stands for itself; the others stand for the rest.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import some_of
        >>> mu = some_of(Points.uniform(jnp.linspace(-1, 1, 1001)[:, None]), 80)
        >>> mu.tokens.n, bool(jnp.allclose(mu.weights.sum(), 1)), mu.tokens.x[0].item()
        (80, True, -1.0)
    """
    kept, shares = _sampled(np.asarray(mu.tokens.x), count, far)
    tokens, logs = jax.tree.map(lambda leaf: leaf[kept], (mu.tokens, mu.log_weights))
    return Points(tokens, logs + jnp.asarray(np.log(shares), logs.dtype), mu.reduction)


def _sampled(
    x: Float[np.ndarray, "n d"], count: int, far: int
) -> tuple[Int[np.ndarray, " kept"], Float[np.ndarray, " kept"]]:
    n = len(x)
    if n <= count:
        return np.arange(n), np.ones(n)
    farthest = _farthest(x, count // far)
    others = np.setdiff1d(np.arange(n), farthest, assume_unique=True)
    even = others[np.linspace(0, len(others) - 1, count - len(farthest)).astype(int)]
    kept = np.concatenate([farthest, even])
    shares = np.ones(len(kept))
    shares[len(farthest) :] = len(others) / len(even)
    order = np.argsort(kept)
    return kept[order], shares[order]


def _farthest(x: Float[np.ndarray, "n d"], count: int) -> Int[np.ndarray, " far"]:
    centred = x - np.mean(x, axis=0)
    along = centred @ np.linalg.eigh(centred.T @ centred)[1]
    spread = np.std(along, axis=0)
    radius = np.sum((along / np.where(spread > 0, spread, 1)) ** 2, axis=1)
    return np.argpartition(-radius, count - 1)[:count]
