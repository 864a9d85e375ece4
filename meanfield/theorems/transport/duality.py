"""Entropic transport: duality and its potentials."""

from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import minimize

from meanfield.attention import Attention, Sinkhorn, plans, scalings
from meanfield.measures import Points
from meanfield.scores import SquaredDistance
from meanfield.theorems._arrays import Array, Unary, columns, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library.ensembles import tokens
from meanfield.theorems.reference.alternation import potentials
from meanfield.theorems.reference.formulas import distance_scores

from ._couplings import solve_potentials

SOLVER_SLACK = Slack(tolerance=1e-9, why="the library solves log-marginals to 4e-11")


@statement(
    "castin2025:A.1-duality",
    source="Appendix A.1, eqs. (A.1)–(A.3)",
    claim=r"$\min_\pi \int c\,d\pi + \mathrm{KL}(\pi | \mu\otimes\nu) = "
    r"\max_{f,g} \int f\,d\mu + \int g\,d\nu - \int (e^{f + g - c} - 1)d\mu\,d\nu$; "
    r"at the optimum $f = -\log\int e^{g - c}d\nu$, $g = -\log\int e^{f - c}d\mu$, "
    r"and the value is $\int f\,d\mu + \int g\,d\nu$.",
    hypotheses=r"compact supports; $c = |Qx - Ky|^2/2\epsilon$, potentials in units of "
    r"$\epsilon$",
    control=(
        "the reference takes equal weights",
        {"reference_weights": lambda w: np.full(len(w), 1 / len(w))},
    ),
)
def duality(case: Case, *, reference_weights: Unary = lambda w: w) -> Checks:
    """Compares the library's potentials and plan of two weighted clouds with NumPy.

    The potentials are compared with (A.2). SciPy's BFGS, which does not alternate,
    finds the maximum of the dual. The value from the potentials, and the cost plus
    divergence of the plan, are compared with this maximum.
    """
    # The control changes `reference_weights`, which alters the weights that NumPy uses.
    p = _problem(case)
    q = p._replace(w=reference_weights(p.w), v=reference_weights(p.v))
    value, gradient = _dual(q)
    exact = {"gtol": 1e-10}
    best = minimize(value, np.zeros(11), jac=gradient, method="BFGS", options=exact)
    f, g = p.f[:, 0], p.g[0]
    row = -np.log(np.exp(p.scores + g[None, :]) @ q.v)
    column = -np.log(q.w @ np.exp(p.scores + f[:, None]))
    primal = np.sum(p.plan * (np.log(p.plan / np.outer(q.w, q.v)) - p.scores))
    twice = Slack(tolerance=1e-9, why="BFGS to gradients of 1e-10; library to 4e-11")
    yield gap("f from g, (A.2)", f, row, **SOLVER_SLACK)
    yield gap("g from f, (A.2)", g, column, **SOLVER_SLACK)
    yield gap("∫f dμ + ∫g dν, (A.3)", q.w @ f + q.v @ g, -best.fun, **twice)
    yield gap("cost + KL of the plan", primal, -best.fun, **twice)
    yield gap("first marginal", p.plan.sum(axis=1), q.w, **SOLVER_SLACK)
    yield gap("second marginal", p.plan.sum(axis=0), q.v, **SOLVER_SLACK)


class Problem(NamedTuple):
    r"""Two weighted clouds, their scores $-|Qx - Ky|^2/2\epsilon$, and a solution."""

    scores: Array  # minus the cost, divided by ε; one row per atom of the first cloud
    w: Array  # weights of the first cloud
    v: Array  # weights of the second cloud
    f: Array  # the library's potential f, at every pair of atoms
    g: Array  # the library's potential g, at every pair of atoms
    plan: Array  # the library's plan


def _problem(case: Case) -> Problem:
    """Two clouds, and the library's solution on their product."""
    rng = case.rng("clouds")
    x, w = tokens(rng, 5, 2)
    y, v = tokens(rng, 6, 2)
    Q, K = rng.normal(size=(2, 3, 2))
    epsilon, zero = rng.uniform(1.5, 2.5), np.zeros((3, 2))
    z = np.concatenate([np.repeat(x, 6, axis=0), np.tile(y, (5, 1))], axis=1)
    joint_weights = np.outer(w, v).ravel()
    score = SquaredDistance(np.hstack([Q, zero]), np.hstack([zero, K]), 2 * epsilon)
    mu = Points.weighted(z, joint_weights)
    solution, attention = scalings(score, mu), Attention(score, Sinkhorn(), np.eye(4))
    f, g = np.asarray(solution.rows(mu.tokens)), np.asarray(solution.columns(mu.tokens))
    rows = np.asarray(plans(attention, 0.0, mu)[0])
    # The plan couples pairs (x, y) and (x', y'); its marginal for (x, y') is computed.
    joint = (rows * joint_weights[:, None]).reshape(5, 6, 5, 6).sum(axis=(1, 2))
    scores = distance_scores(Q, K, x, y) / (2 * epsilon)
    return Problem(scores, w, v, f.reshape(5, 6), g.reshape(5, 6), joint)


def _dual(p: Problem) -> tuple[Callable, Callable]:
    """Minus the dual functional of (f, g), and its gradient."""
    n = len(p.w)

    def density(h: Array) -> Array:
        return np.exp(p.scores + h[:n, None] + h[None, n:]) * np.outer(p.w, p.v)

    def value(h: Array) -> float:
        return float(density(h).sum() - 1 - p.w @ h[:n] - p.v @ h[n:])

    def gradient(h: Array) -> Array:
        pi = density(h)
        return np.concatenate([pi.sum(axis=1) - p.w, pi.sum(axis=0) - p.v])

    return value, gradient


@statement(
    "castin2025:eq-A.2-uniqueness",
    source="Appendix A.1, after eq. (A.2)",
    claim=r"The solutions of (A.2) are $(f + \eta, g - \eta)$ for constants $\eta$, "
    r"and no others.",
    hypotheses=r"$\mu$- and $\nu$-almost everywhere; bounded cost",
    control=(
        "the random starts are followed for one full step only",
        {"full_steps": 1},
        ("f up to a constant η", "g up to −η", "f + g"),
    ),
)
def uniqueness(case: Case, *, full_steps: int | None = None) -> Checks:
    """Compares the library's potentials with Sinkhorn iterations from random starts.

    The potentials may differ only by one constant, which is added to f and subtracted
    from g. The linearisation of (A.2) at the library's solution must have exactly one
    zero singular value.
    """
    p = _problem(case)
    forward = p.plan / p.plan.sum(axis=1, keepdims=True)
    backward = p.plan.T / p.plan.sum(axis=0)[:, None]
    linear = np.block([[np.eye(5), forward], [backward, np.eye(6)]])
    values = np.linalg.svd(linear, compute_uv=False)
    # Compare the library's potentials with Sinkhorn iterations from random starts.
    starts = 3 * case.rng("starts").normal(size=(case.pick(3, 20), len(p.v)))
    arguments = p.scores, p.w, p.v
    f, g = columns(
        solve_potentials(potentials(*arguments, g), full_steps) for g in starts
    )
    shift = f[:, :1] - p.f[0, 0]
    library = p.f[None, :, 0] + shift
    sums = p.f[:, 0][:, None] + p.g[0][None, :]
    yield gap("f up to a constant η", f, library, **SOLVER_SLACK)
    yield gap("g up to −η", g, p.g[None, 0] - shift, **SOLVER_SLACK)
    actual = f[:, :, None] + g[:, None, :]
    yield gap("f + g", actual, np.stack([sums] * len(f)), **SOLVER_SLACK)
    yield compare("smallest singular value", values[-1], "<=", 0.0, **SOLVER_SLACK)
    yield compare("second smallest", values[-2], ">=", 1e-6)
