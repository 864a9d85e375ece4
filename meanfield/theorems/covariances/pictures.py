"""Figures of covariances under attention."""

from meanfield.attention import attentions
from meanfield.dynamics import LogTime, stack_trees
from meanfield.endings import Status
from meanfield.flows import BlowUp
from meanfield.theorems._arrays import Array, Rng, columns, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap, zero_count
from meanfield.theorems.gaussians.heads import Head, random_head, split_head, two_heads
from meanfield.theorems.gaussians.line import line_paths
from meanfield.theorems.library import gaussian_flows as lib

LONG = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 10.0, 1e3, 1e6])
SLOW = Slack(
    tolerance=1e-4,
    why="t^(2γ-1) at t = 1e6 with γ ≤ 0.07 is 7e-6; ten times that for its factor",
)
TURNING = np.array([0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0])
EYE = np.eye(2)


@statement(
    "castin2025:sec-4.5-item1",
    source="§4.5, item 1, and Figure 4",
    claim=r"If $A + A^\top \prec 0$ and $V = I$ the covariance goes to zero under "
    r"softmax of one head and of several, $\|\Sigma(t)\| \leq (1/\|\Sigma_0\| + "
    r"t\lambda_{\min}(-A - A^\top))^{-1}$, and under L2 and Sinkhorn.",
    hypotheses=r"$V = I$, of each head, and then $A = \sum_h A^{(h)}$",
)
def covariance_decay(case: Case) -> Checks:
    """Compares covariances of the library's flows in d = 2 with a bound of order 1/t.

    The matrix A is not symmetric. Softmax flows to t = 40 have one head, or two heads
    whose forms have any sign and sum to A. Covariances must stay below the bound, and
    none may blow up. Under L2 and Sinkhorn the covariance must vanish by t = 1e6.
    """
    return _all_vanish(case, _sinking(case, EYE))


@covariance_decay.register_control("A has negative eigenvalues, but A + Aᵀ does not")
def _(case: Case) -> Checks:
    A = np.array([[-0.5, 2.0], [0.0, -0.7]])
    problems = [p._replace(A=A) for p in _sinking(case, EYE)]
    runs = (softmax_paths(case, problems, TURNING), _split_paths(case, problems))
    return tuple(map(_blow_up_count, runs, ("one head", "two heads")))


@covariance_decay.register_misprint(
    "C14",
    claim=r"$A + A^\top \prec 0$ implies $\Sigma \to 0$ independently of $V$ under "
    "softmax and L2, but not under Sinkhorn.",
    correction=r"For $V = I$, and also under Sinkhorn.",
    counterexample="d = 1, a = v = −1, s₀ = 1: s = 1/(1 − 2t); d = 2 and V = −I",
)
def _(case: Case) -> Counterexample:
    unit = np.ones((8, 2, 1)) / np.sqrt(2)
    line = line_paths(unit, -unit, -np.ones((8, 1, 1)), np.ones(8))
    plane = softmax_paths(case, _sinking(case, -EYE), TURNING)
    forms = [problem.A for problem in _sinking(case, EYE)[:8]]
    n_sinkhorn = _n_not_vanishing(case, "sinkhorn", forms)
    n_blow_ups = [int(np.sum(run.code == int(Status.BLOW_UP))) for run in (line, plane)]
    return Counterexample(
        misprint=(
            zero_count("runs that blow up, d = 1, a = v = −1", n_blow_ups[0]),
            zero_count("runs that blow up, d = 2, V = −I", n_blow_ups[1]),
            zero_count("Sinkhorn runs that vanish, V = I", 8 - n_sinkhorn),
        ),
        correction=(
            *_all_vanish(case, _sinking(case, EYE)),
            *lib.blow_up_checks(line, np.full(8, 0.5), "d = 1, against t = 1/2"),
        ),
    )


def plane_paths(
    name: str, parameters: tuple[Array, ...], factor: Array, ts: Array
) -> lib.Paths:
    """The library's flows in the plane; they stop when their size exceeds 1000."""
    dynamics = LogTime(stack_trees(list(map(attentions[name], *parameters))))
    start, stop = lib.centred_start(factor), BlowUp(1e3)
    return lib.paths(dynamics, start, np.log1p(ts), stop=stop)


def softmax_paths(case: Case, problems: list[lib.Problem], ts: Array) -> lib.Paths:
    """The library's softmax flows in the plane, until they are steady."""
    rng = case.rng("keys")
    heads = [[random_head(rng, p.V, p.A)] for p in problems]
    return two_heads(heads, lib.starts(problems), ts)


def negative_form(rng: Rng) -> Array:
    """Random symmetric negative definite 2 × 2 matrix."""
    B = rng.normal(size=(2, 2))
    return -B @ B.T - 0.4 * EYE


def _sinking(case: Case, value: Array) -> list[lib.Problem]:
    """Problems with A + Aᵀ ≺ 0, drawn with V = I, which `value` then replaces."""
    rng, problems = case.rng("sinking"), []
    for _ in range(case.pick(8, 16)):
        H, Sigma = negative_form(rng), lib.covariance(rng, 2)
        problem = lib.random_problem(rng, EYE, H, Sigma)
        problems.append(problem._replace(V=value))
    return problems


def _split_paths(case: Case, problems: list[lib.Problem]) -> lib.Paths:
    """The library's flows of two heads with value V, whose bilinear forms sum to A."""
    rng = case.rng("shares")
    heads = [split_head(rng, p.V, p.A) for p in problems]
    return two_heads(heads, lib.starts(problems), TURNING)


def _vanishing(run: lib.Paths, problems: list[lib.Problem], name: str) -> Check:
    """Compares ‖Σ(t)‖ with the bound 1/(1/‖Σ₀‖ + tλ_min(−H))."""
    ratios = []
    for Sigmas, p in zip(run.covariances, problems, strict=True):
        low = np.linalg.eigvalsh(-p.H)[0]
        sizes = np.linalg.norm(Sigmas, 2, axis=(1, 2))
        ratios.append(sizes * (1 / np.linalg.norm(p.covariance, 2) + TURNING * low))
    label = f"size over its bound, {name}"
    return compare(label, np.max(ratios), "<=", 1, **lib.FLOW_SLACK)


def _n_not_vanishing(case: Case, name: str, A: list[Array]) -> int:
    """Number of flows with the forms `A` that do not vanish by t = 1e6."""
    rng, n = case.rng("L2"), len(A)
    K = rng.normal(size=(n, 2, 2)) / 2 + 1.5 * EYE
    Q = np.linalg.solve(np.swapaxes(K, 1, 2), np.stack(A))
    factor = np.linalg.cholesky(np.stack([lib.covariance(rng, 2) for _ in range(n)]))
    run = plane_paths(name, (Q, K, np.stack([EYE] * n)), factor, LONG)
    sizes = np.max(np.abs(run.covariances[:, -1]), axis=(1, 2))
    return int(np.sum(sizes > 1e-4))


def _blow_up_count(run: lib.Paths, name: str) -> Check:
    count = int(np.sum(run.code == int(Status.BLOW_UP)))
    return zero_count(f"softmax runs that blow up, {name}", count)


def _all_vanish(case: Case, problems: list[lib.Problem]) -> Checks:
    runs = {
        "one head": softmax_paths(case, problems, TURNING),
        "two heads": _split_paths(case, problems),
    }
    for label, name in (("L2", "l2"), ("Sinkhorn", "sinkhorn")):
        count = _n_not_vanishing(case, name, [p.A for p in problems])
        yield zero_count(f"{label} runs that do not vanish", count)
    yield from (_blow_up_count(run, name) for name, run in runs.items())
    yield from (_vanishing(run, problems, name) for name, run in runs.items())


@statement(
    "castin2025:sec-4.5-item2",
    source="§4.5, item 2, and Figure 1(b)",
    claim=r"If $A + A^\top \preceq 0$ has rank one, $\Sigma(t)$ converges to a "
    "covariance of rank one, on the ray of the kernel $n$: "
    r"$nn^\top/(n^\top\Sigma_0^{-1}n)$, under softmax and, where $An = A^\top n = 0$, "
    "under L2.",
    hypotheses=r"$d = 2$, $V = I$, $\Sigma_0 \succ 0$",
    remark=r"L2, too, with $(\Sigma^{-1})' = -2(\Sigma^{-1}PA + A^\top P\Sigma^{-1})$ "
    r"and $P = (\Sigma^{-1} + 2K^\top K)^{-1}$, conserves $\kappa = "
    r"n^\top\Sigma^{-1}n$. With $r = |Kn|$ the limit is approached as $t^{2\gamma-1}$, "
    r"$\gamma = r^2/(\kappa + 2r^2)$, which may take long.",
    control=(
        "A + Aᵀ has rank two: the limits are zero",
        {"sizes": (-1.0, -0.2)},
        ("limits…",),
    ),
)
def ray_limits(case: Case, *, sizes: tuple[float, float] = (-1.0, 0.0)) -> Checks:
    """Compares the library's flows at t = 1e6 with limits of rank one.

    Ranks are checked too. Both softmax and L2 with K invertible are compared. If A has
    a skew part, the factors of the covariances rotate for ever; in this case the
    covariances up to t = 40 are compared with the formula of Proposition 4.4.
    """
    problems, skew_problems = (_thin(case, sizes, skew=skew) for skew in (0.0, 1.0))
    run = two_heads([[_row_by_row(p)] for p in problems], lib.starts(problems), LONG)
    final = run.covariances[:, -1]
    ranks = np.sum(np.linalg.eigvalsh(final) > 1e-3, axis=1)
    normals = [np.linalg.eigh(p.H)[1][:, [-1]] for p in problems]
    expected = [
        lib.limit_covariance(p.factor, N)
        for p, N in zip(problems, normals, strict=True)
    ]
    turning = softmax_paths(case, skew_problems, TURNING)
    why = "decaying parts are 1/(λt) < 2e-6 at t = 1e6, over limits of at least 0.2"
    yield zero_count("limits whose rank is not one", np.sum(ranks != 1))
    yield gap("limits", final, expected, tolerance=2e-5, why=why)
    yield gap("limits under L2", _l2_rest(case, problems), expected, **SLOW)
    label = "on the way, A not symmetric"
    yield lib.resolvent_gap(label, turning, skew_problems, TURNING)


def _thin(case: Case, sizes: tuple[float, float], *, skew: float) -> list[lib.Problem]:
    """Random problems with V = I, where A + Aᵀ has eigenvalues proportional to `sizes`.

    `skew` multiplies the skew part of A.
    """
    rng, problems = case.rng("thin"), []
    for _ in range(case.pick(8, 16)):
        U = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        W = skew * rng.uniform(0.2, 0.5) * np.array([[0, 1], [-1, 0]])
        H = (U * (np.array(sizes) * rng.uniform(0.5, 1.5))) @ U.T
        Sigma = lib.covariance(rng, 2)
        problems.append(lib.Problem(EYE, H / 2 + W, np.linalg.cholesky(Sigma)))
    return problems


def _l2_rest(case: Case, problems: list[lib.Problem]) -> Array:
    """Covariances at t = 1e6 of L2 flows with the bilinear forms of the problems.

    `_row_by_row` gives the queries. One more row makes K invertible. That row is
    zero in Q and has small entries in K, so that the limit is approached fast.
    """
    rng, matrices = case.rng("L2 keys"), []
    for p in problems:
        Q, K, V = _row_by_row(p)
        blind = ~np.any(Q, axis=1)
        row = blind[:, None] * rng.uniform(-0.25, 0.25, size=(2, 2))
        matrices.append((Q, K + row, V))
    run = plane_paths("l2", columns(matrices), lib.starts(problems)[1], LONG)
    return run.covariances[:, -1]


def _row_by_row(problem: lib.Problem) -> Head:
    """Head with the symmetric form −QᵀQ; rounding does not change its kernel."""
    values, U = np.linalg.eigh(problem.A)
    Q = np.sqrt(np.maximum(-values, 0))[:, None] * U.T
    Q[np.abs(values) < 1e-12] = 0
    return Q, -Q, problem.V
