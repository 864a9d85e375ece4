"""Growth of covariances under attention, and differences between the variants."""

from meanfield.endings import Status
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap, order, zero_count
from meanfield.theorems.gaussians.heads import Head, split_head, two_heads
from meanfield.theorems.library import gaussian_flows as lib

from . import pictures

EYE = np.eye(2)
RISE = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8])


@statement(
    "castin2025:sec-4.5-item4",
    source="§4.5, item 4, and Figure 2",
    claim=r"If $A + A^\top \succ 0$ softmax and its heads blow up in finite time; "
    "under L2 the covariance grows without bound, but exponentially at most.",
    hypotheses=r"$V = I$; for heads $A = \sum_h A^{(h)}$; for L2, $K$ invertible",
    control=("A + Aᵀ is negative", {"sign": -1.0}, ("two…", "softmax…")),
)
def divergence(case: Case, *, sign: float = 1.0) -> Checks:
    """Checks endings, blow-up times and growth of the library's flows in d = 2.

    The matrix A is not symmetric. Softmax with one head and with two heads must blow up
    at the times that a closed form predicts. Under L2, covariances must reach a large
    size, no finite blow-up time may be found, and the growth rate must be below its
    bound.
    """
    # Both heads have V = I, and the sum of their bilinear forms is definite.
    rng, problems, heads = case.rng("rising"), [], []
    for _ in range(case.pick(8, 16)):
        H, Sigma = -sign * pictures.negative_form(rng), lib.covariance(rng, 2)
        whole = lib.random_problem(rng, EYE, H, Sigma)
        problems.append(whole)
        heads.append(split_head(rng, EYE, whole.A, 0.5))
    ones = pictures.softmax_paths(case, problems, RISE)
    twos = two_heads(heads, lib.starts(problems), RISE)
    escapes = np.array([p.escape for p in problems])
    times = escapes if sign > 0 else np.full(len(problems), np.nan)
    for label, run in (("softmax", ones), ("two heads", twos)):
        missing = run.n_other_endings(Status.BLOW_UP)
        yield zero_count(f"{label}: runs without blow-up", missing)
        if np.all(np.isfinite(times)):
            yield list(lib.blow_up_checks(run, times, label))[1]
    yield from _l2_rising(case)


def _l2_rising(case: Case) -> Checks:
    """Checks that L2 flows with invertible K grow to large sizes, but not too fast.

    The growth must be exponential at most.
    """
    rng, n = case.rng("L2 rising"), 8
    K = rng.normal(size=(n, 2, 2)) / 3 + EYE
    skew = 0.2 * np.array([[0, 1], [-1, 0]])
    A = np.stack([-pictures.negative_form(rng) / 2 + skew for _ in range(n)])
    Sigma = np.stack([lib.covariance(rng, 2) for _ in range(n)])
    Q = np.linalg.solve(np.swapaxes(K, 1, 2), A)
    factor, ts = np.linalg.cholesky(Sigma), np.linspace(0, 1e3, 9)
    run = pictures.plane_paths("l2", (Q, K, np.stack([EYE] * n)), factor, ts)
    norm = lambda M, kind=2: np.linalg.norm(M, kind, axis=(1, 2))
    size = norm(run.covariances[:, -1])
    bound = 2 * norm(A) / norm(K, -2) ** 2
    rate = np.log(size / norm(factor) ** 2) / np.expm1(run.stop_time) / bound
    lower_why = "half of the bound squared, for one direction of two"
    upper_why = "the bound squared, and what one step grows"
    finite = np.sum(np.isfinite(run.t_star))
    least_label = "L2: least size when stopped"
    greatest_label = "L2: greatest size when stopped"
    label = "L2: rate of growth over its bound"
    yield compare(least_label, np.min(size), ">=", 0.5e6, why=lower_why)
    yield compare(greatest_label, np.max(size), "<=", 1e7, why=upper_why)
    yield zero_count("L2: runs with a finite blow-up time", finite)
    yield compare(label, np.max(rate), "<=", 1, **lib.FLOW_SLACK)


@statement(
    "castin2025:fig-5",
    source="Figure 5",
    claim=r"With the same $Q$, $K$, $V$ and $\Sigma_0$ L2 follows softmax unless that "
    r"blows up: for small $\Sigma$ at twice its speed, to a relative distance of order "
    r"$\|K^\top K\Sigma\|$, and to the same limits if $Q = -K$, $V = I$; where softmax "
    "blows up, L2 does not.",
    hypotheses=r"centred; for small $\Sigma$, times when softmax cannot blow up yet",
    control=("Both are compared at the same times", {"speed": 1.0}, ("draw…",)),
)
def similarity(case: Case, *, speed: float = 2.0) -> Checks:
    """Compares the library's L2 flow with its softmax flow, for equal matrices and Σ₀.

    First, both flows start at δΣ₀ and have the value matrix V/δ, for decreasing δ. The
    distance between the L2 flow at t ≤ 0.6 and the softmax flow at 2t must be of order
    δ. The softmax flow is checked against a solution by DOP853. For Q = −K, as in
    Figure 5(b), both flows at t = 1e6 must agree with the formula for the limit of
    softmax. For Q = K, the softmax flow must blow up, and the covariances of the L2
    flow must stay below their bound.
    """
    for i in range(case.pick(1, 4)):
        yield from _small(case, i, speed)
    # Limits of softmax flows and of L2 flows must agree with the formula for softmax.
    factor, Q, K = _row_draws(case, -1.0)
    V, start = np.stack([EYE] * 8), lib.centred_start(factor)
    slow = two_heads(_single(Q, K, V), start, pictures.LONG)
    fast = pictures.plane_paths("l2", (Q, K, V), factor, pictures.LONG)
    normals = np.stack([-K[:, 0, 1], K[:, 0, 0]], axis=-1)[:, :, None]
    rests = [lib.limit_covariance(Y, n) for Y, n in zip(factor, normals, strict=True)]
    why = "decaying parts 1/(2|q|²t) < 1e-5 at t = 1e6, over limits of at least 0.05"
    decay_slack = Slack(tolerance=2e-4, why=why)
    for name, run in (("softmax", slow), ("L2", fast)):
        yield gap(f"limits of {name}", run.covariances[:, -1], rests, **decay_slack)
    # If Q = K, softmax flows blow up, and L2 flows grow at a rate of at most 2|V|.
    factor, Q, K = _row_draws(case, 1.0)
    slow = two_heads(_single(Q, K, V), lib.centred_start(factor), RISE)
    fast = pictures.plane_paths("l2", (Q, K, V), factor, RISE)
    size = np.linalg.norm(fast.covariances, 2, axis=(2, 3))
    ratio = size / (size[:, :1] * np.exp(2 * RISE))
    missing = slow.n_other_endings(Status.BLOW_UP)
    yield zero_count("softmax runs without blow-up", missing)
    largest_ratio = np.max(ratio[:, RISE <= 1.6])
    yield compare("L2 over its bound", largest_ratio, "<=", 1, **lib.FLOW_SLACK)


def _small(case: Case, draw: int, speed: float) -> Checks:
    """Compares the L2 flow at time t with the softmax flow at time `speed` · t.

    The covariances are small: the flows start at δΣ₀ and have the value matrix V/δ, for
    decreasing δ.
    """
    rng, T = case.rng(f"similar {draw}"), np.linspace(0, 0.6, 9)
    deltas = 0.02 * 0.5 ** np.arange(8)
    Q, K, V = (M / np.linalg.norm(M, 2) for M in rng.normal(size=(3, 2, 2)))
    Y = np.linalg.cholesky(lib.covariance(rng, 2))
    Y *= 0.6 / np.linalg.norm(Y, 2)
    scales, rows = deltas[:, None, None], np.stack([[Q, K]] * 8, 1)
    starts, parameters = np.sqrt(scales) * Y, (rows[0], rows[1], V / scales)
    slow = two_heads(_single(*parameters), lib.centred_start(starts), speed * T)
    fast = pictures.plane_paths("l2", parameters, starts, T)
    _, expected = lib.moments([(V, K.T @ Q)], (np.zeros(2), Y), speed * T)
    softmax, l2 = (run.covariances / scales[:, None] for run in (slow, fast))
    distances = np.abs(l2 - softmax).max(axis=(1, 2, 3)) / np.max(np.abs(expected))
    names = ("‖Σ₀‖", "distance")
    yield order(f"draw {draw}", deltas, distances, 1.0, names=names)
    yield lib.flow_gap(f"softmax, {draw}", softmax, np.stack([expected] * 8))


def _single(Q: Array, K: Array, V: Array) -> list[list[Head]]:
    """Members with one head, for each (Q, K, V)."""
    return [[head] for head in zip(Q, K, V, strict=True)]


def _row_draws(case: Case, sign: float) -> tuple[Array, Array, Array]:
    """Factors of covariances of trace one, and rows Q = ±K, as in Figure 5(b)."""
    rng = case.rng("figure")
    Sigma = np.stack([lib.covariance(rng, 2) for _ in range(8)])
    Sigma /= np.trace(Sigma, axis1=1, axis2=2)[:, None, None]
    factor, K = np.linalg.cholesky(Sigma), np.zeros((8, 2, 2))
    angle = rng.uniform(0, np.pi, size=8)
    K[:, 0] = 1.3 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return factor, sign * K, K
