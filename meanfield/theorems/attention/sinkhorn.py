"""Sinkhorn attention on points."""

import itertools
from collections.abc import Callable, Sequence

from meanfield.attention import Attention, Sinkhorn
from meanfield.scores import SquaredDistance
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import EXACT, ROUNDING, Slack, bounded, gap
from meanfield.theorems._vocabulary import Change, Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference import sinkhorn as sk

COUNTS = (1, 2, 3, 4, 5)
Weigh = Callable[[Cloud], Array]


@statement(
    "castin2025:eq-2.4",
    source="(2.4), §2.4",
    claim=r"From $\kappa^0 = e^{Qx\cdot Ky/\epsilon}$, dividing by $\int\kappa(x, y)"
    r"d\mu(y)$ and by $\int\kappa(x, y)d\mu(x)$ in turn converges to $\kappa^\infty$, "
    r"both integrals one; in Hilbert's metric a full step leaves at most "
    r"$\tanh(\Delta/4)^2$ of the distance, $\Delta$ the largest "
    r"$(x - x')\cdot A^\top(y - y')/\epsilon$ on the support.",
    hypotheses=r"$\epsilon > 0$; $\mu$ of compact support",
    control=(
        "integrals against the counting measure: the weights are forgotten",
        {"weigh": lambda at: np.full(len(at.w), 1 / len(at.w))},
        ("matrix after …", "velocity…", "κ, …", "marginals, …"),
    ),
)
def iterates(case: Case, *, weigh: Weigh = lambda at: at.share) -> Checks:
    """The library's half-steps against NumPy's, its limit against Newton's method.

    Matrices and velocities, these at other points too, after one to five half-steps;
    the limit for general and for symmetric A, also at small bandwidth, with unequal
    weights; and the rate in Hilbert's metric against Birkhoff's.
    """
    rng = case.rng("iterates")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    probes = att.bare(rng.normal(size=(7, 3)))
    found = att.half_steps(p, at, probes, COUNTS)
    # The library's half-steps against alternating normalisation by loops.
    w, scores = weigh(at), sk.scores_of(p, at)
    rows = att.scores_of(p, at.x, probes.x)
    for count, (matrix, velocity) in zip(COUNTS, found, strict=True):
        exact = sk.density(scores, w, count, scores) * w
        moved = (sk.density(scores, w, count, rows) * w) @ at.x @ p.V.T / p.epsilon
        slack = Slack(tolerance=ROUNDING, why=EXACT)
        yield gap(f"matrix after {count}", matrix, exact, **slack)
        yield gap(f"velocity after {count}", velocity, moved, **slack)
    yield from _limits(case, weigh)
    yield _rate(scores, at.share, [np.asarray(matrix) for matrix, _ in found[::2]])


def _problems(case: Case) -> dict[str, tuple[Parameters, Cloud]]:
    """A general and a symmetric positive semidefinite A, at two bandwidths.

    And one whose symmetric part alone is positive semidefinite.
    """
    rng = case.rng("limits")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    even = p._replace(K=1.5 * p.Q)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    wide = {
        "general A": sk.softened(p, at),
        "A + Aᵀ ⪰ 0": sk.softened(p._replace(K=turn @ p.Q), at),
        "A ⪰ 0": sk.softened(even, at),
    }
    for label in ("general A", "A ⪰ 0"):
        wide[f"{label}, small ε"] = sk.sharpened(wide[label], at)
    return {label: (made, at) for label, made in wide.items()}


def _limits(case: Case, weigh: Weigh) -> Checks:
    """The library's limit against Newton's method, and its marginals."""
    for label, (p, at) in _problems(case).items():
        w = weigh(at)
        scores = sk.scores_of(p, at)
        exact, solved = sk.converged(scores, w).kappa, sk.converged(scores, at.share)
        ((matrix, velocity),) = att.half_steps(p, at, at, (None,))
        sums = np.concatenate([np.asarray(matrix).sum(1), w @ np.asarray(matrix) / w])
        moved = (exact * w) @ at.x @ p.V.T / p.epsilon
        yield gap(f"κ, {label}", np.asarray(matrix) / w, exact, **solved.within)
        yield gap(f"velocity, {label}", velocity, moved, **solved.within)
        yield gap(f"marginals, {label}", sums, np.ones(14), **solved.within)


def _rate(scores: Array, w: Array, odd: Sequence[Array]) -> Check:
    """The largest share of Hilbert's distance to the limit that a full step leaves."""
    limit = np.log(sk.converged(scores, w).kappa[0])
    far = [sk.oscillation(np.log(matrix[0] / w) - limit) for matrix in odd]
    ratio = max(b / a for a, b in itertools.pairwise(far))
    why = f"rounding of logarithms, 1e-14, over the last distance {far[-2]:.1g}"
    rounding, bound = 1e-14 / far[-2], sk.birkhoff(scores)
    label = "share left by a full step"
    return bounded(label, ratio, "<=", bound, tolerance=rounding, why=why)


@statement(
    "castin2025:eq-2.5",
    source="(2.5), §2.4",
    claim=r"$\kappa^\infty d(\mu\otimes\mu)$ is the one minimiser, over couplings "
    r"$\pi$ of $\mu$ with itself, of $-\int Qx\cdot Ky\,d\pi + "
    r"\epsilon\,\mathrm{KL}(\pi, \mu\otimes\mu)$.",
    remark=r"Every coupling lies above it by $\epsilon\,\mathrm{KL}(\pi, \pi^\infty)$, "
    r"exactly, which is the uniqueness.",
    control=(
        r"the coupling of $A^\top$, which has the same marginals",
        {"change": lambda p: p.exchanged},
    ),
)
def minimiser(case: Case, *, change: Change = lambda p: p) -> Checks:
    """The library's plan among 500 couplings, random ones and ones next to the minimum.

    Costs in NumPy: none lies below, each lies above by its divergence, and the plan's
    equals the dual value of NumPy's potentials.
    """
    rng = case.rng("optimal")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    w, scores, epsilon = at.share, sk.scores_of(p, at), float(p.epsilon)
    ((matrix, _),) = att.half_steps(change(p), at, at, (None,))
    plan, product = w[:, None] * np.asarray(matrix), np.outer(w, w)
    solved = sk.converged(scores, w)
    others = sk.competitors(solved.kappa * product, w, rng, case.pick(500, 2000))
    primal = lambda P: epsilon * np.sum(P * (np.log(P / product) - scores), (-2, -1))
    above = primal(others) - primal(plan)
    excess = above - epsilon * sk.divergence(others, plan)
    f, g = ref.sinkhorn_potentials(scores, w)
    slack = Slack(tolerance=20 * solved.error, why=f"{solved.why}; potentials below 20")
    yield gap("cost above ε KL(π | plan)", excess, 0 * excess, scale=epsilon, **slack)
    yield bounded("smallest cost above the plan's", above.min(), ">=", 0.0, **slack)
    yield gap("dual value", primal(plan), epsilon * w @ (f + g), **slack)


@statement(
    "castin2025:sec-2.4-invariance",
    source="§2.4",
    claim=r"$\kappa^\infty$ depends on $Q$ and $K$ through $A = K^\top Q$ alone, also "
    r"for the score $-\frac12|Qx - Ky|^2/\epsilon$.",
    control=(
        "one half-step, so row-normalised weights, of squared distances",
        {"count": 1},
        ("squares",),
    ),
)
def invariance(case: Case, *, count: int | None = None) -> Checks:
    """The library's plans for three scores of one A against Newton's, in NumPy."""
    rng = case.rng("invariance")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    M = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    turned = p._replace(Q=M @ p.Q, K=np.linalg.solve(M.T, p.K))
    solved = sk.converged(sk.scores_of(p, at), at.share)
    squares = SquaredDistance(p.Q, p.K, 2 * float(p.epsilon))
    found = {
        "(Q, K)": att.half_steps(p, at, at, (count,))[0][0],
        "(MQ, M⁻ᵀK)": att.half_steps(turned, at, at, (count,))[0][0],
        "squares": att.matrices(Attention(squares, Sinkhorn(count), p.V), at)[0],
    }
    expected = solved.kappa * at.share
    for label, matrix in found.items():
        yield gap(label, matrix, expected, **solved.within)
