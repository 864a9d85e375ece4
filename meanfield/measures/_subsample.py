"""Subsampling of tokens: the farthest ones, and a reweighted sample of the rest."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ._measure import check_unstacked
from ._points import Points


def subsample(mu: Points, count: int, *, far: int = 8) -> Points:
    """About `count` tokens that approximate the measure, in their original order.

    A fraction `1 / far` of them are the tokens farthest from the mean, which keep their
    weights. Distances are in standard deviations along the principal axes. The others
    are spaced evenly by index among the remaining tokens. They are reweighted to
    represent all remaining tokens.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import subsample
        >>> mu = subsample(Points.uniform(jnp.linspace(-1, 1, 1001)[:, None]), 80)
        >>> mu.tokens.n, bool(jnp.allclose(mu.weights.sum(), 1)), mu.tokens.x[0].item()
        (80, True, -1.0)
    """
    check_unstacked(mu, "Tokens are chosen from one measure")
    indices, shares = _sample_indices(np.asarray(mu.tokens.x), count, far)
    tokens = jax.tree.map(
        lambda leaf: jnp.asarray(np.asarray(leaf)[indices]), mu.tokens
    )
    logs = np.asarray(mu.log_weights)[indices]
    logs = jnp.asarray(logs + np.log(shares).astype(logs.dtype))
    return Points(tokens, logs, mu.reduction, space=mu.space)


def _sample_indices(
    x: Float[np.ndarray, "n d"], count: int, far: int
) -> tuple[Int[np.ndarray, " kept"], Float[np.ndarray, " kept"]]:
    n = len(x)
    if n <= count:
        return np.arange(n), np.ones(n)
    farthest = _farthest(x, count // far)
    is_far = np.zeros(n, bool)
    is_far[farthest] = True
    rest = np.flatnonzero(~is_far)
    even = rest[np.linspace(0, len(rest) - 1, count - len(farthest)).astype(int)]
    indices = np.concatenate([farthest, even])
    shares = np.ones(len(indices))
    shares[len(farthest) :] = len(rest) / len(even)
    order = np.argsort(indices)
    return indices[order], shares[order]


def _farthest(x: Float[np.ndarray, "n d"], count: int) -> Int[np.ndarray, " far"]:
    centred_x = x - np.mean(x, axis=0)
    projections = centred_x @ np.linalg.eigh(centred_x.T @ centred_x)[1]
    spread = np.std(projections, axis=0)
    radius = np.sum((projections / np.where(spread > 0, spread, 1)) ** 2, axis=1)
    return np.argpartition(-radius, count - 1)[:count]
