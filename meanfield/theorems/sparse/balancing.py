"""Sparse Sinkhorn attention: balancing of matrices, and its limits."""

from collections.abc import Callable, Iterable
from itertools import permutations

from scipy.optimize import linear_sum_assignment, nnls

from meanfield.theorems._arrays import Array, Rng, Unary, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, gap
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, PASSES = 8, 500
LIMIT_SLACK = Slack(
    tolerance=1e-9,
    why="convergence is geometric: 500 passes reach rounding, far below 1e-9",
)


@statement(
    "tay2020:3.1.1-limit",
    source="§3.1.1",
    claim=r"Alternating normalisation of $e^R$ tends to a doubly stochastic $S(R)$; "
    r"that $e^R > 0$ suffices.",
    control=("one pass, which ends on rows", {"passes": 1}, ("column sums", "S")),
)
def limit(case: Case, *, passes: int = PASSES) -> Checks:
    """Compares matrices of the library and of NumPy after 500 passes, and checks sums.

    Scores are 8 × 8 and normal. NumPy divides entries, and the library subtracts
    logarithms.
    """
    logs = case.rng("scores").normal(size=(N, N))
    S = seq.balance(logs, passes)
    exact = ref.balance(np.exp(logs), PASSES)
    yield gap("column sums", S.sum(axis=0), np.ones(N), **LIMIT_SLACK)
    yield close("row sums", S.sum(axis=1), np.ones(N))
    yield gap("S", S, exact, **LIMIT_SLACK)


def _triangle(rng: Rng) -> Array:
    return np.tril(rng.uniform(0.5, 1.5, size=(4, 4)))


def _unsupported_matrix(rng: Rng) -> Array:
    """Matrix whose first two rows are supported on the first column only.

    Such a matrix has no total support.
    """
    matrix = _triangle(rng)
    matrix[1, 1] = 0
    return matrix


@statement(
    "tay2020:3.1.1-support",
    source="§3.1.1",
    claim=r"A nonnegative matrix with a positive diagonal is balanced to a doubly "
    r"stochastic limit, which may have more zeros than the matrix.",
    control=(
        "a diagonal entry is zero, so that no permutation avoids zeros",
        {"matrix": _unsupported_matrix},
    ),
)
def support(case: Case, *, matrix: Callable[[Rng], Array] = _triangle) -> Checks:
    """Compares a triangular matrix, balanced by the library, with the identity.

    The matrix is 4 × 4 and lower triangular, with positive entries. After 20 000 passes
    its columns must sum to one.
    """
    X = matrix(case.rng("triangle"))
    with np.errstate(divide="ignore"):
        S = seq.balance(np.log(X), 20_000)
    slow = Slack(tolerance=2e-3, why="vanishing entries decay as one over the passes")
    yield gap("column sums", S.sum(axis=0), np.ones(4), **slow)
    yield gap("the identity", S, np.eye(4), **slow)


@statement(
    "tay2020:F_r-F_c",
    source="§3.1.1",
    claim=r"$F_r(X) = X \oslash (X11^\top)$ makes rows sum to one, and $F_c(X) = X "
    r"\oslash (11^\top X)$ columns.",
    control=(
        "they are exchanged",
        {"rows": ref.normalise_columns, "columns": ref.normalise_rows},
    ),
)
def normalisations(
    case: Case,
    *,
    rows: Unary = ref.normalise_rows,
    columns: Unary = ref.normalise_columns,
) -> Checks:
    """Checks sums of two NumPy normalisations, and compares the library's pass.

    The matrices are 8 × 8, and a pass normalises columns and then rows.
    """
    X = np.exp(case.rng("scores").normal(size=(N, N)))
    yield close("row sums of F_r", rows(X).sum(axis=1), np.ones(N))
    yield close("column sums of F_c", columns(X).sum(axis=0), np.ones(N))
    yield close("F_r after F_c", rows(columns(X)), seq.balance(np.log(X), 1))


@normalisations.register_misprint(
    "T1",
    claim=r"$F_r(X) = X \oslash (11^\top X)$ and $F_c(X) = X \oslash (X11^\top)$.",
    correction=r"The two are exchanged: $X \oslash (X11^\top)$ makes rows sum to one.",
    counterexample="a random positive matrix, 8 × 8",
)
def _(case: Case) -> Counterexample:
    printed = normalisations(
        case, rows=ref.normalise_columns, columns=ref.normalise_rows
    )
    return Counterexample(printed[:2], normalisations(case)[:2])


def _misplaced_sums(X: Array) -> Array:
    return X.sum(axis=1, keepdims=True)


@statement(
    "tay2020:log-domain",
    source="§3.1.1",
    claim=r"In the log domain rows are normalised as $X - \log((e^X1)1^\top)$, and "
    r"columns likewise.",
    control=(r"the exponential is of $X1$", {"sums": _misplaced_sums}),
)
def log_domain(
    case: Case, *, sums: Unary = lambda X: np.log(np.exp(X).sum(axis=1, keepdims=True))
) -> Checks:
    """Checks row sums of one log-domain step, and compares a pass with the library's.

    NumPy takes the step for 8 × 8 normal scores.
    """
    X = case.rng("scores").normal(size=(N, N))
    step = lambda Y: Y - sums(Y)
    one_pass = np.exp(step(step(X.T).T))
    yield close("row sums", np.exp(step(X)).sum(axis=1), np.ones(N))
    yield close("one pass and the library", one_pass, seq.balance(X, 1))


@log_domain.register_misprint(
    "T2",
    claim=r"$X - \log(\exp(X1)1^\top)$.",
    correction=r"$X - \log((\exp(X)1)1^\top)$.",
    counterexample="a matrix of normal numbers, 8 × 8",
)
def _(case: Case) -> Counterexample:
    return Counterexample(log_domain(case, sums=_misplaced_sums), log_domain(case))


ORDERS = np.array([np.eye(4)[list(order)] for order in permutations(range(4))])


def _far(corners: Array, matrices: Iterable[Array]) -> Check:
    """Checks the distances of matrices to the convex hull of `corners`."""
    rows = np.vstack([corners.reshape(len(corners), -1).T, np.ones(len(corners))])
    far = max(nnls(rows, np.append(S.ravel(), 1.0))[1] for S in matrices)
    why = "nonnegative least squares end at rounding"
    return compare("distance to combinations", far, "<=", 0, tolerance=1e-9, why=why)


@statement(
    "tay2020:birkhoff",
    source="§3.1.1",
    claim=r"Doubly stochastic matrices are the convex combinations of permutation "
    r"matrices (Birkhoff, von Neumann).",
)
def birkhoff(case: Case) -> Checks:
    """Measures distances of five balanced matrices to the hull of permutations.

    The matrices are 4 × 4, and the distances come from nonnegative least squares over
    the 24 permutations.
    """
    rng = case.rng("scores")
    draws = (2 * rng.normal(size=(4, 4)) for _ in range(5))
    yield _far(ORDERS, (seq.balance(logs, 2000) for logs in draws))


@birkhoff.register_control("rows sum to one and columns do not")
def _(case: Case) -> Checks:
    logs = 2 * case.rng("scores").normal(size=(4, 4))
    yield _far(ORDERS, [ref.normalise_rows(np.exp(logs))])


@birkhoff.register_misprint(
    "T11",
    claim="Permutation matrices are convex combinations of doubly stochastic ones.",
    correction="Doubly stochastic matrices are convex combinations of permutations; a "
    "permutation is one of itself alone.",
    counterexample="the identity and a hundred balanced random matrices, 4 × 4",
)
def _(case: Case) -> Counterexample:
    rng = case.rng("others")
    matrices = [seq.balance(rng.normal(size=(4, 4)), PASSES) for _ in range(100)]
    printed = _far(np.array(matrices), [np.eye(4)])
    corrected = _far(ORDERS, matrices[:1])
    return Counterexample((printed,), (corrected,))


SHARES = (1.0, 0.3, 0.1, 0.03)


@statement(
    "tay2020:3.2.1-gumbel",
    source="§3.2.1",
    claim=r"With Gumbel noise $\epsilon$, $S((R + \epsilon)/\tau)$ tends to a "
    r"permutation as $\tau \to 0$, almost surely.",
    control=("there is no noise, and rows are equal", {"noise": 0.0}),
)
def gumbel(case: Case, *, noise: float = 1.0) -> Checks:
    r"""Compares the library's $S$ with the best assignment as $\tau$ decreases.

    The scores are a matrix with equal rows, plus Gumbel noise. The library balances
    them in 3000 passes. The values of $\tau$ are 1, 0.3, 0.1 and 0.03 times the gap
    between the best and the second-best assignment. SciPy finds the best assignment,
    and a search over all 24 gives the gap.
    """
    rng = case.rng("noise")
    scores = np.tile(rng.normal(size=4), (4, 1)) + noise * rng.gumbel(size=(4, 4))
    values = np.sort(np.sum(ORDERS * scores, axis=(1, 2)))
    best = np.eye(4)[linear_sum_assignment(-scores)[1]]
    room = (values[-1] - values[-2]) or 1.0
    S = [seq.balance(scores / (share * room), 3000) for share in SHARES]
    far = np.max(np.abs(np.array(S) - best), axis=(1, 2))
    slack = Slack(tolerance=0.02, why="e^(−1/0.03) and the error after finite passes")
    yield compare("distance at the smallest τ", far[-1], "<=", 0, **slack)
    ratio = far[-1] / far[0]
    yield compare("distance there over that at the largest", ratio, "<=", 0.1)
