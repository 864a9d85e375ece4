"""Flows of Gaussians in terms of a factor of the covariance."""

from collections.abc import Callable
from functools import partial

from meanfield.attention import attentions
from meanfield.dynamics import LogTime, stack_trees
from meanfield.theorems._arrays import Array, Rng, Unary, columns, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.reference import formulas as ref

UNIT = np.linspace(0, 1, 9)
ROUNDING = Slack(
    tolerance=1e-12, why="rounding: 1e-16 in each of at most 1e4 operations"
)


@statement(
    "castin2025:lemma-4.6",
    source="Lemma 4.6, §4.2",
    claim=r"From $\Sigma_0 = u_0u_0^\top$, $\Sigma(t) = u(t)u(t)^\top$ with $u' = "
    r"(u^\top A u)\,Vu$.",
    hypotheses=r"$u_0 \neq 0$, softmax",
    control=(
        "u moves along the transpose of V",
        {"value": lambda V: V.T},
        ("covariance…",),
    ),
)
def rank_one(case: Case, *, value: Unary = lambda V: V) -> Checks:
    """Compares the library's flows of rank one in d = 4 with u computed by DOP853.

    The factors are square matrices of rank one, and their rank must stay one.
    """
    rng = case.rng("rank one")
    problems = [_thin(rng, 1) for _ in range(case.pick(8, 24))]
    run = lib.long_paths(case, "rank one", problems, UNIT)
    expected = []
    for problem in problems:
        size, direction = np.linalg.eigh(problem.covariance)
        u0, A, V = np.sqrt(size[-1]) * direction[:, -1], problem.A, value(problem.V)
        rate = lambda _, u, A=A, V=V: (u @ A @ u) * (V @ u)
        u = ref.integrate(rate, u0, UNIT)
        expected.append(u[:, :, None] * u[:, None, :])
    low = _tail_ratio(run.covariances, 1)
    yield lib.flow_gap("covariance against uuᵀ", run.covariances, expected)
    yield compare("second eigenvalue over the first", low, "<=", 0, **ROUNDING)


def _thin(rng: Rng, rank: int) -> lib.Problem:
    """Random V and A in d = 4, and a square factor whose rank is `rank`."""
    V, A = lib.scale_to_norm(rng.normal(size=(2, 4, 4)), 0.8)
    thin = np.linalg.qr(rng.normal(size=(4, rank)))[0]
    factor = lib.scale_to_norm(rng.normal(size=(4, rank)) @ thin.T, 0.8)
    return lib.Problem(V, A, factor)


def _tail_ratio(covariances: Array, rank: int) -> float:
    """Largest ratio of the eigenvalue of index `rank` + 1 to the first eigenvalue."""
    values = np.abs(np.linalg.eigvalsh(covariances))[..., ::-1]
    return float(np.max(values[..., rank] / values[..., 0]))


@statement(
    "new:N3",
    source="This project",
    claim="Under a field $Lx + b$ that depends on the Gaussian, $Y' = LY$ gives "
    r"$\Sigma = YY^\top$, of the rank of $\Sigma_0$ at all times, and $\alpha' = "
    r"L\alpha + b$; softmax: $L = V\Sigma A$; L2: $L = 2VY(I + 2Y^\top K^\top "
    r"KY)^{-1}Y^\top A$.",
    hypotheses=r"$\Sigma_0 = Y_0Y_0^\top$ of any rank; no inverse of $\Sigma$ is used",
    control=(
        "A is transposed under softmax; under L2 the 2 of 2KᵀK is missing",
        {"turn": np.transpose, "two": 1},
        ("softmax, …", "L2, …"),
    ),
)
def factors(case: Case, *, turn: Unary = lambda A: A, two: float = 2) -> Checks:
    """Compares the library's flows of rank two in d = 4 with SciPy's DOP853.

    DOP853 solves the equations of α and Σ. Under softmax the factors are square, and
    their rank must stay two. Under L2, Q and K have three rows, and ε ≠ 1. Means are
    not zero.
    """
    yield from _softmax_factor(case, turn=turn)
    rng, n, epsilon = case.rng("L2"), case.pick(6, 24), 0.8
    Q, K = lib.scale_to_norm(rng.normal(size=(2, n, 3, 4)), 0.6)
    V = lib.scale_to_norm(rng.normal(size=(n, 4, 4)), 0.6)
    factor = lib.scale_to_norm(rng.normal(size=(n, 4, 2)), 0.8)
    mean = 0.5 * rng.normal(size=(n, 4))
    factory = partial(attentions["l2"], epsilon=epsilon)
    dynamics = stack_trees(list(map(factory, Q, K, V)))
    run, solutions = lib.paths(dynamics, (mean, factor), UNIT), []
    for q, k, v, m, Y in zip(Q, K, V, mean, factor, strict=True):
        rate = _l2_rate(q / np.sqrt(epsilon), k / np.sqrt(epsilon), v, two=two)
        solutions.append(ref.integrate(rate, np.column_stack([m, Y @ Y.T]), UNIT))
    expected = np.stack(solutions)
    yield lib.flow_gap("L2, mean", run.means, expected[..., 0])
    yield lib.flow_gap("L2, covariance", run.covariances, expected[..., 1:])


def _l2_rate(
    Q: Array, K: Array, V: Array, *, two: float
) -> Callable[[float, Array], Array]:
    r"""Rate of (α | Σ) under L2, without inverting Σ; `two` is the 2 in $2K^\top K$."""

    def rate(_: float, y: Array) -> Array:
        alpha, Sigma = y[:, 0], y[:, 1:]
        P = np.linalg.solve(np.eye(len(K.T)) + two * Sigma @ K.T @ K, Sigma)
        half = 2 * V @ P @ K.T @ Q @ Sigma
        mean = V @ (alpha + 2 * P @ K.T @ (Q - K) @ alpha)
        return np.column_stack([mean, half + half.T])

    return rate


def _softmax_factor(case: Case, *, turn: Unary) -> Checks:
    rng = case.rng("softmax")
    problems = [_thin(rng, 2) for _ in range(case.pick(8, 24))]
    mean = 0.5 * rng.normal(size=(len(problems), 4))
    dynamics = LogTime(lib.softmax_stack(rng, problems))
    run = lib.paths(dynamics, (mean, lib.starts(problems)[1]), np.log1p(UNIT))
    means, covariances = columns(
        lib.moments([(p.V, turn(p.A))], (m, p.factor), UNIT)
        for p, m in zip(problems, mean, strict=True)
    )
    low = _tail_ratio(run.covariances, 2)
    yield lib.flow_gap("softmax, mean", run.means, means)
    yield lib.flow_gap("softmax, covariance", run.covariances, covariances)
    yield compare("third eigenvalue over the first", low, "<=", 0, **ROUNDING)
