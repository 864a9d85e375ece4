"""Limits of Gaussians under softmax attention with value matrix I."""

from meanfield.endings import Status
from meanfield.theorems._arrays import Array, Rng, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, zero_count
from meanfield.theorems.library import gaussian_flows as lib

SHORT = np.array([0.0, 0.1, 1.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
DECAY_SLACK = Slack(
    tolerance=1e-3,
    why="parts that decay as 1/t along q decay as β²/t along N if V mixes both: β is "
    "below 1e2 unless V almost commutes with A, and t = 1e8",
)
# Eigenvalues above this value count towards the rank. At the last time of a flow, each
# eigenvalue is below 1/72 or above 0.2.
ALIVE = 0.05


@statement(
    "castin2025:text-before-4.8",
    source="Text before Proposition 4.8, §4.2",
    claim=r"The limits have $\mathrm{rk}\,\Sigma_* = d - \mathrm{rk}\,A$.",
    hypotheses=r"softmax, $V = I$, $A = A^\top \preceq 0$, $\Sigma_0 \succ 0$",
)
def limit_ranks(case: Case) -> Checks:
    r"""Checks ranks of the library's flows in d = 3 at t = 1e8, for A of rank 1 and 2.

    The limits are compared with $N(N^\top\Sigma_0^{-1}N)^{-1}N^\top$, where the columns
    of N span the kernel of A.
    """
    problems = _flat_draws(case)
    ranks, limits = _rank_check(case, problems, lib.LONG)
    expected = [_resting(p) for p in problems]
    return ranks, lib.flow_gap("limits", limits, expected)


@limit_ranks.register_control(
    "A has a skew part, which raises its rank but does not change the limit"
)
def _(case: Case) -> Checks:
    skew = np.array([[0.0, 0.2, -0.1], [-0.2, 0.0, 0.3], [0.1, -0.3, 0.0]])
    skew_problems = [p._replace(A=p.A + skew) for p in _flat_draws(case)]
    return _rank_check(case, skew_problems, SHORT)[:1]


@limit_ranks.register_misprint(
    "C8",
    claim=r"$\mathrm{rk}\,\Sigma_* \leq \mathrm{rk}\,A$.",
    correction=r"$\mathrm{rk}\,\Sigma_* = d - \mathrm{rk}\,A$.",
    counterexample="$A = -e_1e_1^\\top$ in d = 3, from generic covariances",
)
def _(case: Case) -> Counterexample:
    A = -np.diag([1.0, 0.0, 0.0])
    problems = [p._replace(A=A) for p in _flat_draws(case)]
    _, limits = _rank_check(case, problems, lib.LONG)
    ranks = _ranks(limits)
    return Counterexample(
        misprint=(compare("largest rank", max(ranks), "<=", 1, why="a count"),),
        correction=(
            compare("largest rank", max(ranks), "=", 2, why="a count"),
            compare("least rank", min(ranks), "=", 2, why="a count"),
        ),
    )


def _sinking(rng: Rng, d: int, rank: int) -> lib.Problem:
    """Problem with `V = I` and symmetric, negative semidefinite `A` of rank `rank`."""
    U, sizes = lib.rotation(rng, d)[:, :rank], rng.uniform(0.6, 1.5, size=rank)
    factor = np.linalg.cholesky(lib.covariance(rng, d))
    return lib.Problem(np.eye(d), -(U * sizes) @ U.T, factor)


def _ranks(covariances: Array) -> Array:
    return np.sum(np.linalg.eigvalsh(covariances) > ALIVE, axis=-1)


def _resting(p: lib.Problem) -> Array:
    return lib.limit_covariance(p.factor, lib.kernel(p.A + p.A.T))


def _rank_check(
    case: Case, problems: list[lib.Problem], ts: Array
) -> tuple[Check, Array]:
    """Checks that every limit has rank d − rk A, and returns the limits too."""
    run = lib.long_paths(case, "limits", problems, ts)
    expected_ranks = [len(p.A) - np.linalg.matrix_rank(p.A, tol=1e-9) for p in problems]
    wrong = int(np.sum(_ranks(run.covariances[:, -1]) != expected_ranks))
    label = "limits whose rank is not d − rk A"
    return zero_count(label, wrong), run.covariances[:, -1]


def _flat_draws(case: Case) -> list[lib.Problem]:
    rng = case.rng("flat")
    return [_sinking(rng, 3, 1 + i % 2) for i in range(case.pick(8, 32))]


@statement(
    "castin2025:text-after-4.8",
    source="Text after Proposition 4.8, §4.2",
    claim=r"If $A + A^\top$ has a positive eigenvalue the covariance blows up in "
    r"finite time under softmax, from any $\Sigma_0 \succ 0$.",
    hypotheses=r"$V = I$",
)
def finite_time_blow_up(case: Case) -> Checks:
    """Checks that the library's flows in d = 3 blow up unless A + Aᵀ ⪯ 0.

    Every signature with a positive eigenvalue is tested. Blow-up times must be right
    within the error estimates of the flow. Covariances before the blow-up are compared
    with the formula.
    """
    problems = _rising(case)
    run = lib.long_paths(case, "rising", problems, lib.LONG)
    escapes = np.array([p.escape for p in problems])
    yield lib.resolvent_gap("covariance", run, problems, lib.LONG)
    yield from lib.blow_up_checks(run, escapes, "V = I")


@finite_time_blow_up.register_control(
    "Σ₀ is singular, and misses the one positive eigenvector"
)
def _(case: Case) -> Checks:
    problems = []
    for problem in _rising(case):
        values, U = np.linalg.eigh(problem.H)
        H = (U * np.minimum(values, -0.2)) @ U.T + 0.5 * np.outer(U[:, 2], U[:, 2])
        start = U @ np.diag([0.7, 0.4, 0.0])
        problems.append(lib.Problem(problem.V, H / 2, start))
    run = lib.long_paths(case, "rising", problems, lib.LONG)
    yield zero_count("wrong endings, V = I", run.n_other_endings(Status.BLOW_UP))


def _rising(case: Case) -> list[lib.Problem]:
    """Problems in which `A + Aᵀ` has at least one positive eigenvalue."""
    rng, problems = case.rng("rising"), []
    for i in range(case.pick(8, 32)):
        U, values = lib.rotation(rng, 3), rng.uniform(0.3, 1.2, size=3)
        values *= np.array([1, (-1) ** i, (-1) ** (i // 2)])
        H, Sigma = (U * values) @ U.T, lib.covariance(rng, 3)
        problems.append(lib.random_problem(rng, np.eye(3), H, Sigma))
    return problems


@statement(
    "castin2025:fig-3",
    source="Figure 3",
    claim=r"For $A = -Q^\top Q$ of rank $\lfloor d/2 \rfloor$ the limits have rank "
    r"$\lceil d/2 \rceil$ exactly: $N(N^\top\Sigma_0^{-1}N)^{-1}N^\top$ with $N = \ker "
    "Q$.",
    hypotheses=r"softmax, $V = I$ and $V = W^\top W \succ 0$, $\Sigma_0 \succ 0$",
    remark=r"$(\Sigma^{-1})' = -(\Sigma^{-1}V\Sigma A + A\Sigma V\Sigma^{-1})$ keeps "
    r"$N^\top\Sigma^{-1}N$, and $\mathrm{tr}\,V^{-1}\Sigma$ falls until $Q\Sigma = 0$.",
    control=("Q has one more row", {"rows": 1}, ("limits of other…",)),
)
def half_rank(case: Case, *, rows: int = 0) -> Checks:
    """Compares ranks and limits of the library's flows at t = 1e8 with closed forms.

    There are four flows for each kind of V in d = 3 and in d = 4, and at full size also
    in d = 5.
    """
    for d in case.pick((3, 4), (3, 4, 5)):
        problems, limits = _figure(case, d, rows=rows)
        expected = [_resting(p) for p in problems]
        yield _halves(d, limits)
        yield gap(f"limits, d = {d}", limits, expected, **DECAY_SLACK)


@half_rank.register_misprint(
    "C8",
    claim=r"The caption says: rank at most $\lfloor d/2 \rfloor$.",
    correction=r"Rank $\lceil d/2 \rceil$.",
    counterexample="the flows in d = 3, of either V",
)
def _(case: Case) -> Counterexample:
    _, limits = _figure(case, 3, rows=0)
    largest_rank = max(_ranks(limits))
    return Counterexample(
        misprint=(
            compare("largest rank, d = 3", largest_rank, "<=", 1, why="a count"),
        ),
        correction=(_halves(3, limits),),
    )


def _figure(case: Case, d: int, *, rows: int) -> tuple[list[lib.Problem], Array]:
    """Problems with A = −QᵀQ, where Q has ⌊d/2⌋ + `rows` rows, and their limits.

    Half of the problems have V = I, the others a positive definite V.
    """
    rng = case.rng(f"figure, d = {d}")
    problems = [_sinking(rng, d, d // 2 + rows) for _ in range(8)]
    for i in range(4, 8):
        W = lib.rotation(rng, d) * rng.uniform(0.6, 1, size=d)
        problems[i] = problems[i]._replace(V=W @ W.T)
    run = lib.long_paths(case, f"figure, d = {d}", problems, lib.LONG)
    return problems, run.covariances[:, -1]


def _halves(d: int, limits: Array) -> Check:
    wrong = np.sum(_ranks(limits) != -(-d // 2))
    return zero_count(f"limits of other rank than ⌈d/2⌉, d = {d}", wrong)
