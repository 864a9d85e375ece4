"""Sinkhorn attention on points."""

import itertools
from collections.abc import Callable, Sequence

from meanfield.attention import Attention, Sinkhorn
from meanfield.scores import SquaredDistance
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import close, compare, gap
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
        {"weigh": lambda cloud: np.full(len(cloud.w), 1 / len(cloud.w))},
        ("matrix after …", "velocity…", "κ, …", "marginals, …"),
    ),
)
def iterates(case: Case, *, weigh: Weigh = lambda cloud: cloud.share) -> Checks:
    """Compares the library's Sinkhorn half-steps, and their limit, with NumPy.

    After one to five half-steps, matrices at the tokens and velocities at other points
    are compared with alternating normalisation. The limit is compared with Newton's
    solution, for general and for symmetric A, also at small bandwidths. Weights are
    unequal. The convergence rate in Hilbert's metric is compared with Birkhoff's bound.
    """
    rng = case.rng("iterates")
    p, cloud = att.random_problem(rng, 7)
    probes = att.uniform_cloud(rng.normal(size=(7, 3)))
    half_steps = att.half_steps(p, cloud, probes, COUNTS)
    # Half-steps of the library must agree with alternating normalisation by NumPy.
    w, scores = weigh(cloud), sk.scores_of(p, cloud)
    rows = att.scores_of(p, cloud.x, probes.x)
    for count, (matrix, velocity) in zip(COUNTS, half_steps, strict=True):
        exact = sk.density(scores, w, count, scores) * w
        weights = sk.density(scores, w, count, rows) * w
        expected = weights @ cloud.x @ p.V.T / p.epsilon
        yield close(f"matrix after {count}", matrix, exact)
        yield close(f"velocity after {count}", velocity, expected)
    yield from _limits(case, weigh)
    odd = [np.asarray(matrix) for matrix, _ in half_steps[::2]]
    yield _rate(scores, cloud.share, odd)


def _problems(case: Case) -> dict[str, tuple[Parameters, Cloud]]:
    """Parameters and a cloud for each kind of A.

    General A and symmetric A ⪰ 0 have two bandwidths each; A + Aᵀ ⪰ 0 has one.
    """
    p, cloud = att.random_problem(case.rng("limits"), 7)
    even = p._replace(K=1.5 * p.Q)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    wide = {
        "general A": sk.soften(p, cloud),
        "A + Aᵀ ⪰ 0": sk.soften(p._replace(K=turn @ p.Q), cloud),
        "A ⪰ 0": sk.soften(even, cloud),
    }
    for label in ("general A", "A ⪰ 0"):
        wide[f"{label}, small ε"] = sk.sharpen(wide[label], cloud)
    return {label: (parameters, cloud) for label, parameters in wide.items()}


def _limits(case: Case, weigh: Weigh) -> Checks:
    """Compares the library's limit with Newton's solution, and checks the marginals."""
    for label, (p, cloud) in _problems(case).items():
        w = weigh(cloud)
        scores = sk.scores_of(p, cloud)
        exact = sk.solve_density(scores, w).kappa
        solution = sk.solve_density(scores, cloud.share)
        ((matrix, velocity),) = att.half_steps(p, cloud, cloud, (None,))
        sums = np.concatenate([np.asarray(matrix).sum(1), w @ np.asarray(matrix) / w])
        expected = (exact * w) @ cloud.x @ p.V.T / p.epsilon
        yield gap(f"κ, {label}", np.asarray(matrix) / w, exact, **solution.slack)
        yield gap(f"velocity, {label}", velocity, expected, **solution.slack)
        yield gap(f"marginals, {label}", sums, np.ones(14), **solution.slack)


def _rate(scores: Array, w: Array, odd: Sequence[Array]) -> Check:
    """Compares the contraction of Hilbert's distance with Birkhoff's bound."""
    limit = np.log(sk.solve_density(scores, w).kappa[0])
    far = [sk.oscillation(np.log(matrix[0] / w) - limit) for matrix in odd]
    ratio = max(b / a for a, b in itertools.pairwise(far))
    why = f"rounding of logarithms, 1e-14, over the last distance {far[-2]:.1g}"
    rounding, bound = 1e-14 / far[-2], sk.birkhoff(scores)
    label = "share left by a full step"
    return compare(label, ratio, "<=", bound, tolerance=rounding, why=why)


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
        {"change": lambda p: p.transpose},
    ),
)
def minimiser(case: Case, *, change: Change = lambda p: p) -> Checks:
    """Compares the cost of the library's plan with the costs of 500 other couplings.

    Half of the other couplings are random, and half lie near the minimiser. NumPy
    computes all costs. No coupling may cost less than the plan, each must cost more by
    ε times its divergence from the plan, and the plan's cost must equal the dual value
    of the potentials.
    """
    rng = case.rng("optimal")
    p, cloud = att.random_problem(rng, 7)
    w, scores, epsilon = cloud.share, sk.scores_of(p, cloud), float(p.epsilon)
    ((matrix, _),) = att.half_steps(change(p), cloud, cloud, (None,))
    plan, product = w[:, None] * np.asarray(matrix), np.outer(w, w)
    solution = sk.solve_density(scores, w)
    couplings = sk.competitors(solution.kappa * product, w, rng, case.pick(500, 2000))
    primal = lambda P: epsilon * np.sum(P * (np.log(P / product) - scores), (-2, -1))
    cost_gaps = primal(couplings) - primal(plan)
    excess = cost_gaps - epsilon * sk.divergence(couplings, plan)
    f, g = ref.sinkhorn_potentials(scores, w, w)
    slack = solution.potential_slack
    yield gap("cost above ε KL(π | plan)", excess, 0 * excess, scale=epsilon, **slack)
    yield compare("smallest cost above the plan's", cost_gaps.min(), ">=", 0.0, **slack)
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
    """Compares the library's plans for three scores that share A with a NumPy plan.

    The NumPy plan is computed by Newton's method.
    """
    rng = case.rng("invariance")
    p, cloud = att.random_problem(rng, 7)
    M = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    equivalent = p._replace(Q=M @ p.Q, K=np.linalg.solve(M.T, p.K))
    solution = sk.solve_density(sk.scores_of(p, cloud), cloud.share)
    squares = SquaredDistance(p.Q, p.K, 2 * float(p.epsilon))
    matrices = {
        "(Q, K)": att.half_steps(p, cloud, cloud, (count,))[0][0],
        "(MQ, M⁻ᵀK)": att.half_steps(equivalent, cloud, cloud, (count,))[0][0],
        "squares": att.matrices(Attention(squares, Sinkhorn(count), p.V), cloud)[0],
    }
    expected = solution.kappa * cloud.share
    for label, matrix in matrices.items():
        yield gap(label, matrix, expected, **solution.slack)
