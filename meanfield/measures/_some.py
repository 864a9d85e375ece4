"""Some of many tokens: the farthest, and others that stand for the rest."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ._measure import check_unstacked
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
    check_unstacked(mu, "Tokens are chosen from one measure")
    kept, shares = _sampled(np.asarray(mu.tokens.x), count, far)
    tokens = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[kept]), mu.tokens)
    logs = np.asarray(mu.log_weights)[kept]
    logs = jnp.asarray(logs + np.log(shares).astype(logs.dtype))
    return Points(tokens, logs, mu.reduction)


def _sampled(
    x: Float[np.ndarray, "n d"], count: int, far: int
) -> tuple[Int[np.ndarray, " kept"], Float[np.ndarray, " kept"]]:
    n = len(x)
    if n <= count:
        return np.arange(n), np.ones(n)
    farthest = _farthest(x, count // far)
    is_far = np.zeros(n, bool)
    is_far[farthest] = True
    others = np.flatnonzero(~is_far)
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
