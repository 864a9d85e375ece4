"""Densities of Sinkhorn, their competitors, divergences and rates, in NumPy."""

from itertools import islice
from typing import NamedTuple

from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._protocols import ROUNDING, Slack
from meanfield.theorems._vocabulary import Cloud, Parameters

from .alternation import scalings, settled
from .formulas import dot_scores

MOST_NEWTON = 20  # steps; it doubles its digits
MARGINAL = 4e-11  # the library's default: eps^(2/3), on the sup of |log marginal|


def density(scores: Array, w: Array, count: int, rows: Array) -> Array:
    r"""$\kappa^\ell$ at other queries, of scores `rows`, after `count` half-steps.

    Rows first, from $\kappa^0 = e^s$; each half-step divides by the integrals against
    $\mu$, which `w` holds.
    """
    columns = [v for _, v in islice(scalings(np.exp(scores), w, w), count)]
    seen = columns[-1] if count % 2 else columns[-2]  # by the last half-step of rows
    u = 1 / (np.exp(rows) @ (w * seen))
    return u[:, None] * np.exp(rows) * columns[-1][None, :]


class Solved(NamedTuple):
    r"""A converged density against $\mu\otimes\mu$ and what an error in it is."""

    kappa: Array  # the density
    free: float  # the spectral gap of alternation, 1 minus what a full step leaves
    error: float  # what marginals solved to the library's tolerance leave in it
    why: str  # how that was derived

    @property
    def within(self) -> Slack:
        """The tolerance of what is compared with it, and why."""
        return Slack(tolerance=self.error, why=self.why)


def converged(scores: Array, w: Array) -> Solved:
    """By alternation until nothing changes, and Newton's method on both potentials.

    Where the spectral gap is small alternation stops far away, and Newton's method
    takes several steps. Scores must be below 300.
    """
    moved = lambda old, new: np.max(np.abs(new[1] / old[1] - 1))
    states = scalings(np.exp(scores), w, w)
    f, g = np.log(settled(states, moved, below=1e-15, most=6000))
    for _ in range(MOST_NEWTON):
        f, g, missed = _newton(scores, w, f, g)
        if missed < 1e-14:
            break
    kappa = np.exp(scores + f[:, None] + g[None, :])
    root = np.sqrt(w)
    shares = np.linalg.svd(root[:, None] * kappa * root[None, :])[1][1:] ** 2
    free = float(1 - np.max(shares, initial=0))
    why = f"marginals solved to 4e-11, over the spectral gap {free:.2g} of alternation"
    return Solved(kappa, free, 4 * MARGINAL / free + ROUNDING, why)


def _newton(scores: Array, w: Array, f: Array, g: Array) -> tuple[Array, Array, float]:
    """One step of Newton's method on the dual, least squares across the constants.

    And by how much the marginals were off before it.
    """
    P = np.exp(scores + f[:, None] + g[None, :]) * w[:, None] * w[None, :]
    rows, columns = P.sum(axis=1), P.sum(axis=0)
    H = np.block([[np.diag(rows), P], [P.T, np.diag(columns)]])
    slope = np.concatenate([w - rows, w - columns])
    step = np.linalg.lstsq(H, slope, rcond=1e-13)[0]
    missed = float(np.max(np.abs(slope)))
    return f + step[: len(w)], g + step[len(w) :], missed


def softened(p: Parameters, at: Cloud) -> Parameters:
    """With the bandwidth doubled as often as a spectral gap of one hundredth needs.

    Below, marginals solved to a tolerance say little of the density.
    """
    if converged(scores_of(p, at), at.share).free >= 0.01:
        return p
    return softened(p._replace(epsilon=2 * p.epsilon), at)


def sharpened(p: Parameters, at: Cloud) -> Parameters:
    """With the bandwidth halved as often as leaves a spectral gap of one hundredth."""
    half = p._replace(epsilon=p.epsilon / 2)
    scores = scores_of(half, at)
    soft = np.max(np.abs(scores)) < 300
    if soft and converged(scores, at.share).free >= 0.01:
        return sharpened(half, at)
    return p


def scores_of(p: Parameters, at: Cloud) -> Array:
    """Scores between the tokens."""
    return dot_scores(p.Q, p.K, at.x, at.x) / p.epsilon


def competitors(best: Array, w: Array, rng: Rng, count: int) -> Array:
    """Couplings of `w` with itself: half of them random, half near the best one.

    Random positive matrices, normalised until their marginals are exact.
    """
    P = np.exp(2 * rng.normal(size=(count, len(w), len(w))))
    for _ in range(3000):
        P *= (w / P.sum(axis=1))[:, None, :]
        ratio = w / P.sum(axis=2)
        P *= ratio[:, :, None]
        if np.max(np.abs(ratio - 1)) < 1e-14:
            break
    near = best + 0.01 * (P[::2] - best)
    return np.concatenate([P[1::2], near])


def divergence(P: Array, R: Array) -> Array:
    r"""$\sum P\log(P/R) - P + R$, of a stack of matrices."""
    return np.asarray(np.sum(P * np.log(P / R) - P + R, axis=(-2, -1)))


def oscillation(v: Array) -> float:
    """Hilbert's metric of $e^v$ and 1."""
    return float(np.max(v) - np.min(v))


def birkhoff(scores: Array) -> float:
    r"""$\tanh(\Delta/4)^2$, which bounds what a full step leaves of a distance."""
    s = scores[:, None, :] - scores[None, :, :]
    return float(np.tanh(np.max(s.max(axis=2) - s.min(axis=2)) / 4) ** 2)
