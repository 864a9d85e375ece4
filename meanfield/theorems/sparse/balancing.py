"""Sparse Sinkhorn attention: balancing, and what it tends to."""

from collections.abc import Callable, Iterable
from itertools import permutations

from scipy.optimize import linear_sum_assignment, nnls

from meanfield.theorems._arrays import Array, Rng, Unary, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, gap
from meanfield.theorems.library import sequences as seq
from meanfield.theorems.reference import sparse as ref

N, PASSES = 8, 500
CONVERGED = Slack(
    tolerance=1e-9,
    why="contracts geometrically: 500 passes end at rounding, 1e-9 is far above it",
)


@statement(
    "tay2020:3.1.1-limit",
    source="§3.1.1",
    claim=r"Alternating normalisation of $e^R$ tends to a doubly stochastic $S(R)$; "
    r"that $e^R > 0$ suffices.",
    control=("one pass, which ends on rows", {"passes": 1}, ("column sums", "S")),
)
def limit(case: Case, *, passes: int = PASSES) -> Checks:
    """The library's matrix of 8 × 8 normal scores after 500 passes: both its sums.

    And NumPy's by plain division.
    """
    logs = case.rng("scores").normal(size=(N, N))
    S = seq.balance(logs, passes)
    exact = ref.balanced(np.exp(logs), PASSES)
    yield gap("column sums", S.sum(axis=0), np.ones(N), **CONVERGED)
    yield close("row sums", S.sum(axis=1), np.ones(N))
    yield gap("S", S, exact, **CONVERGED)


def _triangle(rng: Rng) -> Array:
    return np.tril(rng.uniform(0.5, 1.5, size=(4, 4)))


def _without_support(rng: Rng) -> Array:
    """Two rows that have the first column alone: no permutation avoids zeros."""
    matrix = _triangle(rng)
    matrix[1, 1] = 0
    return matrix


@statement(
    "tay2020:3.1.1-support",
    source="§3.1.1",
    claim=r"A nonnegative matrix with a positive diagonal is balanced to a doubly "
    r"stochastic limit, which may have zeros where the matrix has none.",
    control=(
        "an entry of the diagonal is zero: no permutation is left",
        {"matrix": _without_support},
    ),
)
def support(case: Case, *, matrix: Callable[[Rng], Array] = _triangle) -> Checks:
    """The library's balancing of a positive triangle, 4 × 4, after 20 000 passes."""
    X = matrix(case.rng("triangle"))
    with np.errstate(divide="ignore"):
        S = seq.balance(np.log(X), 20_000)
    slow = Slack(tolerance=2e-3, why="what vanishes does as one over the passes")
    yield gap("column sums", S.sum(axis=0), np.ones(4), **slow)
    yield gap("the identity", S, np.eye(4), **slow)


@statement(
    "tay2020:F_r-F_c",
    source="§3.1.1",
    claim=r"$F_r(X) = X \oslash (X11^\top)$ makes rows sum to one, and $F_c(X) = X "
    r"\oslash (11^\top X)$ columns.",
    control=("they are exchanged", {"rows": ref.by_columns, "columns": ref.by_rows}),
)
def normalisations(
    case: Case, *, rows: Unary = ref.by_rows, columns: Unary = ref.by_columns
) -> Checks:
    """Sums of both in NumPy, 8 × 8; and the library's pass, columns and then rows."""
    X = np.exp(case.rng("scores").normal(size=(N, N)))
    yield close("row sums of F_r", rows(X).sum(axis=1), np.ones(N))
    yield close("column sums of F_c", columns(X).sum(axis=0), np.ones(N))
    yield close("F_r after F_c", rows(columns(X)), seq.balance(np.log(X), 1))


@normalisations.misprinted(
    "T1",
    printed=r"$F_r(X) = X \oslash (11^\top X)$ and $F_c(X) = X \oslash (X11^\top)$.",
    corrected=r"The two are exchanged: $X \oslash (X11^\top)$ makes rows sum to one.",
    counterexample="a random positive matrix, 8 × 8",
)
def _(case: Case) -> Counterexample:
    printed = normalisations(case, rows=ref.by_columns, columns=ref.by_rows)
    return Counterexample(printed[:2], normalisations(case)[:2])


def _misplaced(X: Array) -> Array:
    return X.sum(axis=1, keepdims=True)


@statement(
    "tay2020:log-domain",
    source="§3.1.1",
    claim=r"In the log domain rows are normalised as $X - \log((e^X1)1^\top)$, and "
    r"columns likewise.",
    control=(r"the exponential is of $X1$", {"sums": _misplaced}),
)
def log_domain(
    case: Case, *, sums: Unary = lambda X: np.log(np.exp(X).sum(axis=1, keepdims=True))
) -> Checks:
    """One step in NumPy, 8 × 8: its row sums; one pass against the library's."""
    X = case.rng("scores").normal(size=(N, N))
    step = lambda Y: Y - sums(Y)
    once = np.exp(step(step(X.T).T))
    yield close("row sums", np.exp(step(X)).sum(axis=1), np.ones(N))
    yield close("one pass and the library", once, seq.balance(X, 1))


@log_domain.misprinted(
    "T2",
    printed=r"$X - \log(\exp(X1)1^\top)$.",
    corrected=r"$X - \log((\exp(X)1)1^\top)$.",
    counterexample="a matrix of normal numbers, 8 × 8",
)
def _(case: Case) -> Counterexample:
    return Counterexample(log_domain(case, sums=_misplaced), log_domain(case))


ORDERS = np.array([np.eye(4)[list(order)] for order in permutations(range(4))])


def _far(corners: Array, matrices: Iterable[Array]) -> Check:
    """How far the furthest matrix is from the convex combinations of others."""
    rows = np.vstack([corners.reshape(len(corners), -1).T, np.ones(len(corners))])
    far = max(nnls(rows, np.append(S.ravel(), 1.0))[1] for S in matrices)
    why = "nonnegative least squares end at rounding"
    return bounded("distance to combinations", far, "<=", 0, tolerance=1e-9, why=why)


@statement(
    "tay2020:birkhoff",
    source="§3.1.1",
    claim=r"Doubly stochastic matrices are the convex combinations of permutation "
    r"matrices (Birkhoff, von Neumann).",
)
def birkhoff(case: Case) -> Checks:
    """Least squares over the 24 permutations of four, for five balanced matrices."""
    rng = case.rng("scores")
    draws = (2 * rng.normal(size=(4, 4)) for _ in range(5))
    yield _far(ORDERS, (seq.balance(logs, 2000) for logs in draws))


@birkhoff.refuted_by("rows sum to one and columns do not")
def _(case: Case) -> Checks:
    logs = 2 * case.rng("scores").normal(size=(4, 4))
    yield _far(ORDERS, [ref.by_rows(np.exp(logs))])


@birkhoff.misprinted(
    "T11",
    printed="Permutation matrices are convex combinations of doubly stochastic ones.",
    corrected="Doubly stochastic matrices are convex combinations of permutations; a "
    "permutation is one of itself alone.",
    counterexample="the identity and a hundred balanced random matrices, 4 × 4",
)
def _(case: Case) -> Counterexample:
    rng = case.rng("others")
    others = [seq.balance(rng.normal(size=(4, 4)), PASSES) for _ in range(100)]
    printed, corrected = _far(np.array(others), [np.eye(4)]), _far(ORDERS, others[:1])
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
    r"""The library's $S$ after 3000 passes, $\tau$ = 1, 0.3, 0.1, 0.03 of the gap.

    Of scores with equal rows, between which noise decides. The gap is that between the
    best and the second assignment, which SciPy and a search over all 24 find.
    """
    rng = case.rng("noise")
    scores = np.tile(rng.normal(size=4), (4, 1)) + noise * rng.gumbel(size=(4, 4))
    values = np.sort(np.sum(ORDERS * scores, axis=(1, 2)))
    best = np.eye(4)[linear_sum_assignment(-scores)[1]]
    room = (values[-1] - values[-2]) or 1.0
    S = [seq.balance(scores / (share * room), 3000) for share in SHARES]
    far = np.max(np.abs(np.array(S) - best), axis=(1, 2))
    slack = Slack(tolerance=0.02, why="e^(−1/0.03) of the second, and balancing ends")
    yield bounded("distance at the smallest τ", far[-1], "<=", 0, **slack)
    ratio = far[-1] / far[0]
    yield bounded("distance there over that at the largest", ratio, "<=", 0.1)
