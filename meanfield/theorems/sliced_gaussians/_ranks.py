"""Tokens matched by ranks along slices, and closed forms of Gaussians, in NumPy.

Only `attention` and `closed_form` use the library's sliced attention.
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
from meanfield.theorems.library.slices import directions, sliced_attention
from meanfield.theorems.reference import slices as ref
from meanfield.tokens import Tokens


class SlicedProblem(NamedTuple):
    """Parameters of a sliced attention, and the law of its tokens."""

    p: Parameters  # matrices and bandwidth
    law: Law  # law of the tokens
    directions: Array  # unit vectors of the slices, `(slices, k)`


def attention(problem: SlicedProblem, tau: float = 0.0) -> Attention:
    """The library's sliced attention for this problem."""
    return sliced_attention(problem.p, problem.directions, tau)


def draw_problem(rng: Rng, shape: tuple[int, int, int], slices: int) -> SlicedProblem:
    """Random problem; `shape` is (d, k, rank of the covariance)."""
    d, k, r = shape
    p = att.random_parameters(rng, k, d)
    B = rng.normal(size=(d, r)) / np.sqrt(r)
    factor = np.linalg.cholesky(B @ B.T + 0.2 * np.eye(d)) if r == d else B
    law = Law(rng.normal(size=d), factor)
    return SlicedProblem(p, law, directions(rng, slices, k))


def cloud(rng: Rng, law: Law, n: int) -> Array:
    """Tokens whose sample mean and covariance equal the moments of the law exactly."""
    z = rng.normal(size=(n, law.factor.shape[1]))
    z -= z.mean(axis=0)
    root = np.linalg.cholesky(z.T @ z / n)
    return law.mean + np.linalg.solve(root, z.T).T @ law.factor.T


def rank_partners(problem: SlicedProblem, x: Array) -> list[Array]:
    """Tokens whose keys have the ranks of the queries, for each slice, by sorting."""
    p, directions = problem.p, problem.directions
    return [x[ref.partner(x @ (u @ p.Q), x @ (u @ p.K))] for u in directions]


def velocities(problem: SlicedProblem, x: Array, shares: Array | None = None) -> Array:
    """Velocities of tokens under a hard sort.

    By default, all slices have equal `shares`.
    """
    partners = rank_partners(problem, x)
    return np.average(partners, axis=0, weights=shares) @ problem.p.V.T


def library_velocities(problem: SlicedProblem, x: Array, tau: float = 0.0) -> Array:
    """The library's velocities of tokens."""
    tokens = att.uniform_cloud(x)
    return np.asarray(att.velocity(attention(problem, tau), tokens, tokens))


def linear_parts(problem: SlicedProblem, Sigma: Array) -> Array:
    r"""Matrix $\Sigma K^\top\theta\theta^\top Q/(s_Qs_K)$ of each slice."""
    q, k = problem.directions @ problem.p.Q, problem.directions @ problem.p.K
    spread = np.sqrt(np.sum(q @ Sigma * q, axis=1) * np.sum(k @ Sigma * k, axis=1))
    return (k @ Sigma)[:, :, None] * q[:, None, :] / spread[:, None, None]


def residuals(problem: SlicedProblem, Sigma: Array) -> Array:
    r"""Conditional covariance $\mathrm{Cov}(y\,|\,\theta\cdot Ky)$ of each slice."""
    k = problem.directions @ problem.p.K
    shift = k @ Sigma
    variances = np.sum(shift * k, axis=1)
    return Sigma - shift[:, :, None] * shift[:, None, :] / variances[:, None, None]


def costs(problem: SlicedProblem, coefficient: float = 2.0) -> Array:
    """Closed form of the cost $D_l$ of each slice; `coefficient` is 2 in the claim."""
    p, law, directions = problem
    S_Q, S_K = (M @ law.covariance @ M.T for M in (p.Q, p.K))
    square = lambda S: np.einsum("lk,kj,lj->l", directions, S, directions)
    overlap = square(S_Q @ S_K) / np.sqrt(square(S_Q) * square(S_K))
    mean_gap = np.sum(((p.Q - p.K) @ law.mean) ** 2)
    return mean_gap + np.trace(S_Q) + np.trace(S_K) - coefficient * overlap


@eqx.filter_jit
def _affine(dynamics: Attention, mu: Gaussian) -> tuple[JaxArray, JaxArray]:
    field = dynamics.field(0.0, mu)
    assert isinstance(field, Affine)
    return field.linear, field(Tokens(mu.mean[None, :]))[0]


def closed_form(problem: SlicedProblem, tau: float = 0.0) -> tuple[Array, Array]:
    """The library's velocity on the Gaussian: linear part, and value at the mean."""
    return affine_velocity(attention(problem, tau), problem.law)


def affine_velocity(dynamics: Attention, law: Law) -> tuple[Array, Array]:
    """Linear part of a velocity on a Gaussian, and the velocity at the mean."""
    linear, middle = _affine(dynamics, law.gaussian)
    return np.asarray(linear), np.asarray(middle)


def score_of_means(
    label: str, means: Array, fewer: Array, expected: Array, *, bias: float = 0.0
) -> Check:
    """Compares means over independent clouds with their expectation.

    Only the entry furthest from its expectation counts. A bound on the bias is
    subtracted from each difference, and the rest is divided by the standard error over
    the clouds. The bound is `bias`, in the unit of the entries, plus the difference of
    the averages of `means` (from all tokens) and `fewer` (from a quarter of them). This
    difference is three times a bias of order 1/n. Both arrays have the clouds along
    their first axis.
    """
    count, mean = len(means), np.mean(means, axis=0)
    tolerance = bias + np.abs(np.mean(fewer, axis=0) - mean)
    errors = np.std(means, axis=0, ddof=1) / np.sqrt(count)
    excess = np.maximum(np.abs(mean - expected) - tolerance, 0)
    score = float(np.max(excess / errors))
    limit = float(stats.t.isf(stats.norm.sf(SIGMAS), count - 1))
    why = (
        f"Student's quantile of {count} clouds at the level of {SIGMAS} standard "
        "errors, beyond the change from a quarter of the tokens"
    )
    return Check(label, score, "<=", 0.0, limit, why)


def draw_clouds(rng: Rng, law: Law, n: int, count: int) -> tuple[list[Array], ...]:
    """Draws `count` clouds of `n` tokens, and `count` clouds of `n // 4` tokens."""
    whole = [cloud(rng, law, n) for _ in range(count)]
    return whole, [cloud(rng, law, n // 4) for _ in range(count)]
