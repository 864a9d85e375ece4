"""Sinkhorn densities, competing couplings, divergences and rates, in NumPy."""

from itertools import islice
from typing import NamedTuple

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._protocols import ROUNDING, Slack
from meanfield.theorems._vocabulary import Cloud, Parameters

from .alternation import converged_state, scalings
from .formulas import dot_scores

MOST_NEWTON = 20  # largest number of Newton steps; convergence is quadratic
MARGINAL = 4e-11  # the library's default tolerance eps^(2/3) on |log marginal|


def density(scores: Array, w: Array, count: int, rows: Array) -> Array:
    r"""Density $\kappa^\ell$ after `count` half-steps, at queries with scores `rows`.

    Half-steps start with rows, from $\kappa^0 = e^s$. Each half-step divides by
    integrals against $\mu$, whose weights are `w`.
    """
    columns = [v for _, v in islice(scalings(np.exp(scores), w, w), count)]
    # The last half-step on rows used this scaling of the columns.
    column_scaling = columns[-1] if count % 2 else columns[-2]
    u = 1 / (np.exp(rows) @ (w * column_scaling))
    return u[:, None] * np.exp(rows) * columns[-1][None, :]


class ConvergedDensity(NamedTuple):
    r"""Converged Sinkhorn density against $\mu\otimes\mu$, with its tolerance."""

    kappa: Array  # the density
    # The spectral gap of the alternation is 1 minus its contraction factor.
    spectral_gap: float
    error: float  # error of `kappa` that the library's tolerance on marginals allows
    why: str  # how the error was derived

    @property
    def slack(self) -> Slack:
        """Tolerance of comparisons with the density, and how it was derived."""
        return Slack(tolerance=self.error, why=self.why)

    @property
    def potential_slack(self) -> Slack:
        """Tolerance of comparisons with the potentials."""
        return Slack(tolerance=20 * self.error, why=f"{self.why}; potentials below 20")


def solve_density(scores: Array, w: Array) -> ConvergedDensity:
    """Solves Sinkhorn's equations by alternation, and then by Newton's method.

    If the spectral gap is small, alternation stops far from the solution, and Newton's
    method takes several steps. Scores must be below 300.
    """
    change = lambda old, new: np.max(np.abs(new[1] / old[1] - 1))
    states = scalings(np.exp(scores), w, w)
    f, g = np.log(converged_state(states, change, tolerance=1e-15, max_steps=6000))
    for _ in range(MOST_NEWTON):
        f, g, marginal_error = _newton(scores, w, f, g)
        if marginal_error < 1e-14:
            break
    kappa = np.exp(scores + f[:, None] + g[None, :])
    root = np.sqrt(w)
    shares = np.linalg.svd(root[:, None] * kappa * root[None, :])[1][1:] ** 2
    spectral_gap = float(1 - np.max(shares, initial=0))
    why = f"marginals solved to 4e-11, over the spectral gap {spectral_gap:.2g}"
    error = 4 * MARGINAL / spectral_gap + ROUNDING
    return ConvergedDensity(kappa, spectral_gap, error, why)


def _newton(scores: Array, w: Array, f: Array, g: Array) -> tuple[Array, Array, float]:
    """One Newton step on the dual, and the error of the marginals before the step.

    Least squares removes the free constant of the potentials.
    """
    P = np.exp(scores + f[:, None] + g[None, :]) * w[:, None] * w[None, :]
    rows, columns = P.sum(axis=1), P.sum(axis=0)
    H = np.block([[np.diag(rows), P], [P.T, np.diag(columns)]])
    gradient = np.concatenate([w - rows, w - columns])
    step = np.linalg.lstsq(H, gradient, rcond=1e-13)[0]
    marginal_error = float(np.max(np.abs(gradient)))
    return f + step[: len(w)], g + step[len(w) :], marginal_error


def soften(p: Parameters, cloud: Cloud) -> Parameters:
    """Doubles the bandwidth until the spectral gap is at least one hundredth.

    With a smaller gap, small errors of the marginals allow large errors of the density.
    """
    if solve_density(scores_of(p, cloud), cloud.share).spectral_gap >= 0.01:
        return p
    return soften(p._replace(epsilon=2 * p.epsilon), cloud)


def sharpen(p: Parameters, cloud: Cloud) -> Parameters:
    """Halves the bandwidth while the spectral gap stays at least one hundredth."""
    half = p._replace(epsilon=p.epsilon / 2)
    scores = scores_of(half, cloud)
    soft = np.max(np.abs(scores)) < 300
    if soft and solve_density(scores, cloud.share).spectral_gap >= 0.01:
        return sharpen(half, cloud)
    return p


def scores_of(p: Parameters, cloud: Cloud) -> Array:
    """Dot scores between the tokens, divided by the bandwidth."""
    return dot_scores(p.Q, p.K, cloud.x, cloud.x) / p.epsilon


def competitors(best: Array, w: Array, rng: Rng, count: int) -> Array:
    """Couplings of `w` with itself: half of them random, half near `best`.

    The random couplings are positive matrices, normalised until their marginals are
    exact.
    """
    P = np.exp(2 * rng.normal(size=(count, len(w), len(w))))
    for _ in range(3000):
        P *= (w / P.sum(axis=1))[:, None, :]
        ratio = w / P.sum(axis=2)
        P *= ratio[:, :, None]
        if np.max(np.abs(ratio - 1)) < 1e-14:
            break
    neighbours = best + 0.01 * (P[::2] - best)
    return np.concatenate([P[1::2], neighbours])


def divergence(P: Array, R: Array) -> Array:
    r"""Divergence $\sum P\log(P/R) - P + R$ from `R`, for a stack `P` of matrices."""
    return np.asarray(np.sum(P * np.log(P / R) - P + R, axis=(-2, -1)))


def oscillation(v: Array) -> float:
    """Hilbert's distance between $e^v$ and 1, which is max v − min v."""
    return float(np.max(v) - np.min(v))


def birkhoff(scores: Array) -> float:
    r"""Birkhoff's bound $\tanh(\Delta/4)^2$ on the contraction by a full step."""
    s = scores[:, None, :] - scores[None, :, :]
    return float(np.tanh(np.max(s.max(axis=2) - s.min(axis=2)) / 4) ** 2)
