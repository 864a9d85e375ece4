"""Tokens matched by their ranks along slices, and what becomes of Gaussians, in NumPy.

Nothing here uses the library's sliced attention, but `attention` and `closed_form`,
which are the library's view of a problem.
"""

from typing import NamedTuple

from scipy import stats

from meanfield.attention import Attention
from meanfield.fields import Affine
from meanfield.measures import Gaussian
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, np
from meanfield.theorems._prelude import Check
from meanfield.theorems._protocols import SIGMAS
from meanfield.theorems._vocabulary import Law, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library.slices import directions, sliced
from meanfield.theorems.reference import slices as ref
from meanfield.tokens import Tokens


class Sliced(NamedTuple):
    """An attention on slices, and the law of its tokens."""

    p: Parameters  # its matrices
    law: Law  # of the tokens
    directions: Array  # of the slices, unit vectors, `(slices, k)`


def attention(at: Sliced, tau: float = 0.0) -> Attention:
    """The library's variant of these slices."""
    return sliced(at.p, at.directions, tau)


def drawn(rng: Rng, shape: tuple[int, int, int], slices: int) -> Sliced:
    """Generic matrices with `k` rows, directions, and a law of rank `r` in `d`."""
    d, k, r = shape
    p = att.generic(rng, k, d)
    B = rng.normal(size=(d, r)) / np.sqrt(r)
    factor = np.linalg.cholesky(B @ B.T + 0.2 * np.eye(d)) if r == d else B
    law = Law(rng.normal(size=d), factor)
    return Sliced(p, law, directions(rng, slices, k))


def cloud(rng: Rng, law: Law, n: int) -> Array:
    """Tokens whose sample mean and covariance are exactly those of the law."""
    z = rng.normal(size=(n, law.factor.shape[1]))
    z -= z.mean(axis=0)
    root = np.linalg.cholesky(z.T @ z / n)
    return law.mean + np.linalg.solve(root, z.T).T @ law.factor.T


def matched(p: Parameters, direction: Array, x: Array) -> Array:
    """For each token the one whose key has the rank of its query, by two sorts."""
    queries, keys = (x @ (direction @ M) for M in (p.Q, p.K))
    return x[ref.partner(queries, keys)]


def velocities(at: Sliced, x: Array, shares: Array | None = None) -> Array:
    """Of tokens under a hard sort; all slices count alike without `shares`."""
    partners = [matched(at.p, direction, x) for direction in at.directions]
    return np.average(partners, axis=0, weights=shares) @ at.p.V.T


def slopes(p: Parameters, directions: Array, Sigma: Array) -> Array:
    r"""$\Sigma K^\top\theta\theta^\top Q/(s_Qs_K)$ of each slice."""
    q, k = directions @ p.Q, directions @ p.K
    spread = np.sqrt(np.sum(q @ Sigma * q, axis=1) * np.sum(k @ Sigma * k, axis=1))
    return (k @ Sigma)[:, :, None] * q[:, None, :] / spread[:, None, None]


def residuals(p: Parameters, directions: Array, Sigma: Array) -> Array:
    r"""$\mathrm{Cov}(y\,|\,\theta\cdot Ky)$ of each slice."""
    k = directions @ p.K
    shift = k @ Sigma
    along = np.sum(shift * k, axis=1)
    return Sigma - shift[:, :, None] * shift[:, None, :] / along[:, None, None]


def costs(p: Parameters, directions: Array, law: Law, two: float = 2.0) -> Array:
    r"""$D_l$ of each slice, in closed form; `two` is that of its last term."""
    S_Q, S_K = (M @ law.covariance @ M.T for M in (p.Q, p.K))
    square = lambda S: np.einsum("lk,kj,lj->l", directions, S, directions)
    shared = square(S_Q @ S_K) / np.sqrt(square(S_Q) * square(S_K))
    apart = np.sum(((p.Q - p.K) @ law.mean) ** 2)
    return apart + np.trace(S_Q) + np.trace(S_K) - two * shared


@eqx.filter_jit
def _affine(dynamics: Attention, mu: Gaussian) -> tuple[JaxArray, JaxArray]:
    field = dynamics.field(0.0, mu)
    assert isinstance(field, Affine)
    return field.linear, field(Tokens(mu.mean[None, :]))[0]


def closed_form(at: Sliced, tau: float = 0.0) -> tuple[Array, Array]:
    """The library's velocity on the Gaussian: its slope, and its value at the mean."""
    return moved_by(attention(at, tau), at.law)


def moved_by(dynamics: Attention, law: Law) -> tuple[Array, Array]:
    """The slope of a velocity on a Gaussian, and its value at the mean."""
    linear, middle = _affine(dynamics, law.gaussian)
    return np.asarray(linear), np.asarray(middle)


def score_of_means(
    label: str, means: Array, fewer: Array, expected: Array, *, bias: float = 0.0
) -> Check:
    """Means over independent clouds, the entry furthest from its expectation.

    In standard errors, which the scatter over clouds gives: it holds all that is random
    in ranks. What a quarter of the tokens changes is no error of chance, and is
    allowed: three times the bias, if that is as 1/n; and `bias` besides, in the unit of
    the entries. Clouds, of all tokens and of `fewer`, are along the first axis.
    """
    count, mean = len(means), np.mean(means, axis=0)
    allowed = bias + np.abs(np.mean(fewer, axis=0) - mean)
    errors = np.std(means, axis=0, ddof=1) / np.sqrt(count)
    off = np.maximum(np.abs(mean - expected) - allowed, 0)
    score = float(np.max(off / errors))
    limit = float(stats.t.isf(stats.norm.sf(SIGMAS), count - 1))
    why = (
        f"Student's quantile of {count} clouds at the level of {SIGMAS} standard "
        "errors, beyond what a quarter of the tokens changes"
    )
    return Check(label, score, "<=", 0.0, limit, why)


def of_clouds(rng: Rng, law: Law, n: int, count: int) -> tuple[list[Array], ...]:
    """Clouds of `n` tokens, and as many of a quarter of them."""
    whole = [cloud(rng, law, n) for _ in range(count)]
    return whole, [cloud(rng, law, n // 4) for _ in range(count)]
