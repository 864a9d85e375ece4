"""What the pictures of covariances under attention show."""

from meanfield.attention import attentions
from meanfield.dynamics import LogTime, stacked
from meanfield.endings import Status
from meanfield.flows import BlowUp
from meanfield.theorems._arrays import Array, Rng, columns, np
from meanfield.theorems._prelude import Case, Check, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, counted, gap
from meanfield.theorems.gaussians.heads import Head, one_head, two_heads
from meanfield.theorems.gaussians.line import line_paths
from meanfield.theorems.library import gaussian_flows as lib

LONG = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 10.0, 1e3, 1e6])
SLOW = Slack(
    tolerance=1e-4,
    why="t^(2γ-1) at t = 1e6, γ ≤ 0.07: 7e-6, with a margin of ten for its factor",
)
TURNING = np.array([0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0])
EYE = np.eye(2)


@statement(
    "castin2025:sec-4.5-item1",
    source="§4.5, item 1, and Figure 4",
    claim=r"If $A + A^\top \prec 0$ and $V = I$ the covariance goes to zero under "
    r"softmax of one head and of several, $\|\Sigma(t)\| \leq (1/\|\Sigma_0\| + "
    r"t\lambda_{\min}(-A - A^\top))^{-1}$, and under L2.",
    hypotheses=r"$V = I$, of each head, and then $A = \sum_h A^{(h)}$",
)
def sinking(case: Case) -> Checks:
    """Flows in d = 2, A not symmetric.

    Under softmax, of one head and of two whose forms are of any sign and add up to A,
    against the bound to t = 40 and how they end; under L2 their size at t = 1e6.
    """
    return _all_vanish(case, _sinking(case, EYE))


@sinking.refuted_by("A has negative eigenvalues, but A + Aᵀ does not")
def _(case: Case) -> Checks:
    A = np.array([[-0.5, 2.0], [0.0, -0.7]])
    problems = [p._replace(A=A) for p in _sinking(case, EYE)]
    runs = (softmax_paths(case, problems, TURNING), _shared(case, problems))
    return tuple(map(_blown, runs, ("one head", "two heads")))


@sinking.misprinted(
    "C14",
    printed=r"$A + A^\top \prec 0$ implies $\Sigma \to 0$ independently of $V$.",
    corrected=r"For $V = I$.",
    counterexample="d = 1, a = v = −1, s₀ = 1: s = 1/(1 − 2t); d = 2 and V = −I",
)
def _(case: Case) -> Counterexample:
    one = np.ones((8, 2, 1)) / np.sqrt(2)
    line = line_paths(one, -one, -np.ones((8, 1, 1)), np.ones(8))
    away = softmax_paths(case, _sinking(case, -EYE), TURNING)
    found = [int(np.sum(run.code == int(Status.BLOW_UP))) for run in (line, away)]
    return Counterexample(
        printed=(
            counted("runs that blow up, d = 1, a = v = −1", found[0]),
            counted("runs that blow up, d = 2, V = −I", found[1]),
        ),
        corrected=(
            *_all_vanish(case, _sinking(case, EYE)),
            *lib.of_blow_ups(line, np.full(8, 0.5), "d = 1, against t = 1/2"),
        ),
    )


def l2_paths(parameters: tuple[Array, ...], factor: Array, ts: Array) -> lib.Paths:
    """The library's L2 flows in the plane, to any time or to a size of a thousand."""
    dynamics = LogTime(stacked(list(map(attentions["l2"], *parameters))))
    return lib.paths(dynamics, lib.centred(factor), np.log1p(ts), stop=BlowUp(1e3))


def softmax_paths(case: Case, problems: list[lib.Problem], ts: Array) -> lib.Paths:
    """The library's softmax flows in the plane, until they rest, to any time."""
    rng = case.rng("keys")
    heads = [one_head(rng, p.V, p.A) for p in problems]
    return two_heads(heads, lib.starts(problems), ts)


def negative_form(rng: Rng) -> Array:
    """A generic symmetric negative matrix."""
    B = rng.normal(size=(2, 2))
    return -B @ B.T - 0.4 * EYE


def _sinking(case: Case, value: Array) -> list[lib.Problem]:
    """A + Aᵀ ≺ 0 under V = I, then V replaced."""
    rng, made = case.rng("sinking"), []
    for _ in range(case.pick(8, 16)):
        drawn = lib.with_scores(rng, EYE, negative_form(rng), lib.covariance(rng, 2))
        made.append(drawn._replace(V=value))
    return made


def _shared(case: Case, problems: list[lib.Problem]) -> lib.Paths:
    """The library's flows of two heads with V each, whose forms add up to A."""
    rng, heads = case.rng("shares"), []
    for p in problems:
        part = rng.normal(size=(2, 2))
        shares = (part, p.A - part)
        heads.append([one_head(rng, p.V, share)[0] for share in shares])
    return two_heads(heads, lib.starts(problems), TURNING)


def _vanishing(run: lib.Paths, problems: list[lib.Problem], name: str) -> Check:
    """‖Σ(t)‖ against what 1/‖Σ₀‖ + tλ_min(−H) allows."""
    ratios = []
    for Sigmas, p in zip(run.covariances, problems, strict=True):
        low = np.linalg.eigvalsh(-p.H)[0]
        sizes = np.linalg.norm(Sigmas, 2, axis=(1, 2))
        ratios.append(sizes * (1 / np.linalg.norm(p.covariance, 2) + TURNING * low))
    label = f"size over its bound, {name}"
    return bounded(label, np.max(ratios), "<=", 1, **lib.FLOWN)


def _l2_left(case: Case, A: list[Array]) -> Check:
    """L2 flows of these forms at t = 1e6 that have not gone to zero."""
    rng, n = case.rng("L2"), len(A)
    K = rng.normal(size=(n, 2, 2)) / 2 + 1.5 * EYE
    Q = np.linalg.solve(np.swapaxes(K, 1, 2), np.stack(A))
    factor = np.linalg.cholesky(np.stack([lib.covariance(rng, 2) for _ in range(n)]))
    run = l2_paths((Q, K, np.stack([EYE] * n)), factor, LONG)
    left = np.max(np.abs(run.covariances[:, -1]), axis=(1, 2)) > 1e-4
    return counted("L2 runs that do not vanish", np.sum(left))


def _blown(run: lib.Paths, name: str) -> Check:
    count = int(np.sum(run.code == int(Status.BLOW_UP)))
    return counted(f"softmax runs that blow up, {name}", count)


def _all_vanish(case: Case, problems: list[lib.Problem]) -> Checks:
    runs = {
        "one head": softmax_paths(case, problems, TURNING),
        "two heads": _shared(case, problems),
    }
    yield _l2_left(case, [p.A for p in problems])
    yield from (_blown(run, name) for name, run in runs.items())
    yield from (_vanishing(run, problems, name) for name, run in runs.items())


@statement(
    "castin2025:sec-4.5-item2",
    source="§4.5, item 2, and Figure 1(b)",
    claim=r"If $A + A^\top \preceq 0$ has rank one, $\Sigma(t)$ converges to a "
    "covariance of rank one, on the ray of the kernel $n$: "
    r"$nn^\top/(n^\top\Sigma_0^{-1}n)$, under softmax and, where $An = A^\top n = 0$, "
    "under L2.",
    hypotheses=r"$d = 2$, $V = I$, $\Sigma_0 \succ 0$",
    remark=r"Of L2, too, $(\Sigma^{-1})' = -2(\Sigma^{-1}PA + A^\top P\Sigma^{-1})$, "
    r"$P = (\Sigma^{-1} + 2K^\top K)^{-1}$, keeps $\kappa = n^\top\Sigma^{-1}n$. With "
    r"$r = |Kn|$ the limit is approached as $t^{2\gamma-1}$, $\gamma = r^2/(\kappa + "
    r"2r^2)$, which may take long.",
    control=(
        "A + Aᵀ has rank two: the limits are zero",
        {"sizes": (-1.0, -0.2)},
        ("limits…",),
    ),
)
def to_a_ray(case: Case, *, sizes: tuple[float, float] = (-1.0, 0.0)) -> Checks:
    """Flows to t = 1e6: the ranks of their ends, and these against the limits.

    Under softmax, and under L2 with K invertible. For A with a skew part, whose factors
    turn for ever, the formula of Proposition 4.4 to t = 40.
    """
    still, turned = (_thin(case, sizes, skew=skew) for skew in (0.0, 1.0))
    rows = [_row_by_row(p) for p in still]
    run = two_heads(rows, lib.starts(still), LONG)
    final = run.covariances[:, -1]
    ranks = np.sum(np.linalg.eigvalsh(final) > 1e-3, axis=1)
    normals = [np.linalg.eigh(p.H)[1][:, [-1]] for p in still]
    expected = [lib.resting(p.factor, N) for p, N in zip(still, normals, strict=True)]
    turning = softmax_paths(case, turned, TURNING)
    why = "what decays is 1/(λt) < 2e-6 at t = 1e6, over limits of 0.2 at least"
    way = lib.compared(turning, turned, TURNING)
    yield counted("limits whose rank is not one", np.sum(ranks != 1))
    yield gap("limits", final, expected, tolerance=2e-5, why=why)
    yield gap("limits under L2", _l2_rest(case, still), expected, **SLOW)
    yield gap("on the way, A not symmetric", *way, **lib.FLOWN)


def _thin(case: Case, sizes: tuple[float, float], *, skew: float) -> list[lib.Problem]:
    """V = I and A + Aᵀ of these eigenvalues, A turned by a skew part."""
    rng, made = case.rng("thin"), []
    for _ in range(case.pick(8, 16)):
        U = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        W = skew * rng.uniform(0.2, 0.5) * np.array([[0, 1], [-1, 0]])
        H = (U * (np.array(sizes) * rng.uniform(0.5, 1.5))) @ U.T
        Sigma = lib.covariance(rng, 2)
        made.append(lib.Problem(EYE, H / 2 + W, np.linalg.cholesky(Sigma)))
    return made


def _l2_rest(case: Case, problems: list[lib.Problem]) -> Array:
    """Where L2 flows of these forms are at t = 1e6; queries as in `_row_by_row`.

    The keys have a row more, so that K is invertible: it is short, for what decays to
    decay fast, and no query sees it.
    """
    rng, made = case.rng("L2 keys"), []
    for p in problems:
        Q, K, V = _row_by_row(p)[0]
        blind = ~np.any(Q, axis=1)
        made.append((Q, K + blind[:, None] * rng.uniform(-0.25, 0.25, size=(2, 2)), V))
    run = l2_paths(columns(made), lib.starts(problems)[1], LONG)
    return run.covariances[:, -1]


def _row_by_row(problem: lib.Problem) -> list[Head]:
    """A symmetric negative form as −QᵀQ, so that rounding leaves its kernel alone."""
    values, U = np.linalg.eigh(problem.A)
    Q = np.sqrt(np.maximum(-values, 0))[:, None] * U.T
    Q[np.abs(values) < 1e-12] = 0
    nothing = np.zeros((2, 2))
    return [(Q, -Q, problem.V), (nothing, nothing, nothing)]
