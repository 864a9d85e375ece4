"""Covariances under attention that grow, and what sets the variants apart."""

from meanfield.endings import Status
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, counted, gap, order
from meanfield.theorems.gaussians.heads import Head, one_head, two_heads
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
def diverging(case: Case, *, sign: float = 1.0) -> Checks:
    """Flows in d = 2, A not symmetric.

    Endings and blow-up times of one head and of two; under L2 the size reached,
    that no finite time is found, and the rate of growth.
    """
    # Two heads with V = I each, whose forms add up to a definite one.
    rng, problems, heads = case.rng("rising"), [], []
    for _ in range(case.pick(8, 16)):
        H, Sigma = -sign * pictures.negative_form(rng), lib.covariance(rng, 2)
        whole = lib.with_scores(rng, EYE, H, Sigma)
        part = 0.5 * rng.normal(size=(2, 2))
        shares = (part, whole.A - part)
        problems.append(whole)
        heads.append([one_head(rng, EYE, share)[0] for share in shares])
    ones = pictures.softmax_paths(case, problems, RISE)
    twos = two_heads(heads, lib.starts(problems), RISE)
    escapes = np.array([p.escape for p in problems])
    known = escapes if sign > 0 else np.full(len(problems), np.nan)
    for label, run in (("softmax", ones), ("two heads", twos)):
        missing = run.ended_otherwise(Status.BLOW_UP)
        yield counted(f"{label}: runs without blow-up", missing)
        if np.all(np.isfinite(known)):
            yield list(lib.of_blow_ups(run, known, label))[1]
    yield from _l2_rising(case)


def _l2_rising(case: Case) -> Checks:
    """L2 with K invertible: past any size, but never faster than exponentially."""
    rng, n = case.rng("L2 rising"), 8
    K = rng.normal(size=(n, 2, 2)) / 3 + EYE
    skew = 0.2 * np.array([[0, 1], [-1, 0]])
    A = np.stack([-pictures.negative_form(rng) / 2 + skew for _ in range(n)])
    Sigma = np.stack([lib.covariance(rng, 2) for _ in range(n)])
    Q = np.linalg.solve(np.swapaxes(K, 1, 2), A)
    factor, ts = np.linalg.cholesky(Sigma), np.linspace(0, 1e3, 9)
    run = pictures.l2_paths((Q, K, np.stack([EYE] * n)), factor, ts)
    norm = lambda M, which=2: np.linalg.norm(M, which, axis=(1, 2))
    size = norm(run.covariances[:, -1])
    bound = 2 * norm(A) / norm(K, -2) ** 2
    rate = np.log(size / norm(factor) ** 2) / np.expm1(run.stop_time) / bound
    least = "half of the bound squared, for one direction of two"
    most = "the bound squared, and what one step grows"
    finite = np.sum(np.isfinite(run.t_star))
    label = "L2: rate of growth over its bound"
    yield bounded("L2: least size when stopped", np.min(size), ">=", 0.5e6, why=least)
    yield bounded("L2: greatest size when stopped", np.max(size), "<=", 1e7, why=most)
    yield counted("L2: runs with a finite blow-up time", finite)
    yield bounded(label, np.max(rate), "<=", 1, **lib.FLOWN)


@statement(
    "castin2025:fig-5",
    source="Figure 5",
    claim=r"With the same $Q$, $K$, $V$ and $\Sigma_0$ L2 follows softmax unless that "
    r"blows up: for small $\Sigma$ at twice its speed, to a relative distance of order "
    r"$\|K^\top K\Sigma\|$, and to the same limits if $Q = -K$, $V = I$; where softmax "
    "blows up, L2 does not.",
    hypotheses=r"centred; for small $\Sigma$, times when softmax cannot blow up yet",
    control=("At the same times", {"speed": 1.0}, ("draw…",)),
)
def similar(case: Case, *, speed: float = 2.0) -> Checks:
    """The library's flows of both, from the same starts, with the same matrices.

    From δΣ₀ with V/δ, which take a time of order one: the order in δ of the distance
    of L2 at t to softmax at 2t, and that against DOP853. As in the figure: limits at
    t = 1e6 on the ray, and both beyond the time at which softmax blows up.
    """
    for i in range(case.pick(1, 4)):
        yield from _small(case, i, speed)
    # Limits of both, against the formula for softmax.
    factor, Q, K = _of_a_row(case, -1.0)
    V, start = np.stack([EYE] * 8), lib.centred(factor)
    slow = two_heads(_single(Q, K, V), start, pictures.LONG).covariances[:, -1]
    fast = pictures.l2_paths((Q, K, V), factor, pictures.LONG).covariances[:, -1]
    normals = np.stack([-K[:, 0, 1], K[:, 0, 0]], axis=-1)[:, :, None]
    rests = [lib.resting(Y, n) for Y, n in zip(factor, normals, strict=True)]
    why = "what decays is 1/(2|q|²t) < 1e-5 at t = 1e6, over limits of 0.05 at least"
    decayed = Slack(tolerance=2e-4, why=why)
    yield gap("limits of softmax", slow, rests, **decayed)
    yield gap("limits of L2", fast, rests, **decayed)
    # Q = K: softmax blows up; L2 is regular beyond that time, and grows by |V|.
    factor, Q, K = _of_a_row(case, 1.0)
    slow = two_heads(_single(Q, K, V), lib.centred(factor), RISE)
    fast = pictures.l2_paths((Q, K, V), factor, RISE)
    size = np.linalg.norm(fast.covariances, 2, axis=(2, 3))
    ratio = size / (size[:, :1] * np.exp(2 * RISE))
    missing = slow.ended_otherwise(Status.BLOW_UP)
    yield counted("softmax runs without blow-up", missing)
    over = np.max(ratio[:, RISE <= 1.6])
    yield bounded("L2 over its bound", over, "<=", 1, **lib.FLOWN)


def _small(case: Case, draw: int, speed: float) -> Checks:
    """L2 at t against softmax at `speed` times t, starts and values scaled by δ."""
    rng, T = case.rng(f"similar {draw}"), np.linspace(0, 0.6, 9)
    deltas = 0.02 * 0.5 ** np.arange(8)
    Q, K, V = (M / np.linalg.norm(M, 2) for M in rng.normal(size=(3, 2, 2)))
    Y = np.linalg.cholesky(lib.covariance(rng, 2))
    Y *= 0.6 / np.linalg.norm(Y, 2)
    scales, rows = deltas[:, None, None], np.stack([[Q, K]] * 8, 1)
    starts, parameters = np.sqrt(scales) * Y, (rows[0], rows[1], V / scales)
    slow = two_heads(_single(*parameters), lib.centred(starts), speed * T)
    fast = pictures.l2_paths(parameters, starts, T)
    _, expected = lib.moments([(V, K.T @ Q)], (np.zeros(2), Y), speed * T)
    known, found = (run.covariances / scales[:, None] for run in (slow, fast))
    apart = np.abs(found - known).max(axis=(1, 2, 3)) / np.max(np.abs(expected))
    names = ("‖Σ₀‖", "distance")
    yield order(f"draw {draw}", deltas, apart, 1.0, names=names)
    yield gap(f"softmax, {draw}", known, np.stack([expected] * 8), **lib.FLOWN)


def _single(Q: Array, K: Array, V: Array) -> list[list[Head]]:
    """One head, and one that does nothing, of each of the matrices."""
    nothing = np.zeros((2, 2))
    empty = (nothing, nothing, nothing)
    return [[head, empty] for head in zip(Q, K, V, strict=True)]


def _of_a_row(case: Case, sign: float) -> tuple[Array, Array, Array]:
    """Factors of trace one, and Q = ±K of one row, as in Figure 5(b)."""
    rng = case.rng("figure")
    Sigma = np.stack([lib.covariance(rng, 2) for _ in range(8)])
    Sigma /= np.trace(Sigma, axis1=1, axis2=2)[:, None, None]
    factor, K = np.linalg.cholesky(Sigma), np.zeros((8, 2, 2))
    angle = rng.uniform(0, np.pi, size=8)
    K[:, 0] = 1.3 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return factor, sign * K, K
