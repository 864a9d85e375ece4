"""Covariances under attention that grow, and what sets the variants apart."""

import numpy as np

from meanfield.endings import Status
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import bounded, counted, order
from meanfield.theorems._statement import statement
from meanfield.theorems.gaussians.heads import one_head, two_heads
from meanfield.theorems.library.gaussian_flows import (
    FLOWN,
    Paths,
    centred,
    moments,
    of_blow_ups,
    with_scores,
)

from .pictures import (
    EYE,
    first_covariance,
    l2_paths,
    negative_form,
    softmax_paths,
)

RISE = np.array([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8])


@statement(
    "castin2025:sec-4.5-item4",
    source="§4.5, item 4, and Figure 2",
    claim=(
        r"If $A + A^\top \succ 0$ softmax and its heads blow up in finite time; under "
        r"L2 the covariance grows without bound, but exponentially at most."
    ),
    hypotheses=r"$V = I$; for heads $A = \sum_h A^{(h)}$; for L2, $K$ invertible",
)
def diverging(case: Case, *, sign: float = 1.0) -> tuple[Check, ...]:
    """Flows in d = 2, A not symmetric.

    Endings and blow-up times of one head and of two; under L2 the size reached,
    that no finite time is found, and the rate of growth.
    """
    return (*_rising_heads(case, sign), *_l2_rising(case))


diverging.refuted_if("A + Aᵀ is negative", seen_by=("two…", "softmax…"), sign=-1.0)


def _rising_heads(case: Case, sign: float) -> tuple[Check, ...]:
    """Two heads with V = I each, whose forms add up to a definite one."""
    rng, problems, heads = case.rng("rising"), [], []
    for _ in range(case.pick(8, 16)):
        whole = with_scores(rng, EYE, -sign * negative_form(rng), first_covariance(rng))
        part = 0.5 * rng.normal(size=(2, 2))
        shares = (part, whole.A - part)
        problems.append(whole)
        heads.append([one_head(rng, EYE, share)[0] for share in shares])
    ones = softmax_paths(case, problems, RISE)
    start = centred(np.stack([p.factor for p in problems]))
    twos = two_heads(heads, start, RISE)
    escapes = np.array([p.escape for p in problems])
    known = escapes if sign > 0 else np.full(len(problems), np.nan)
    checks = []
    for label, run in (("softmax", ones), ("two heads", twos)):
        missing = run.ended_otherwise(Status.BLOW_UP)
        checks.append(counted(f"{label}: runs without blow-up", missing))
        if np.all(np.isfinite(known)):
            checks.append(of_blow_ups(run, known, label)[1])
    return tuple(checks)


def _l2_risen(case: Case) -> tuple[Paths, np.ndarray]:
    """Eight flows of L2 with K invertible, and their growth rates over the bound."""
    rng, n = case.rng("L2 rising"), 8
    K = rng.normal(size=(n, 2, 2)) / 3 + EYE
    A = np.stack(
        [-negative_form(rng) / 2 + 0.2 * np.array([[0, 1], [-1, 0]]) for _ in range(n)]
    )
    factor = np.linalg.cholesky(np.stack([first_covariance(rng) for _ in range(n)]))
    Q = np.linalg.solve(np.swapaxes(K, 1, 2), A)
    run = l2_paths((Q, K, np.stack([EYE] * n)), factor, np.linspace(0, 1e3, 9))
    first = np.linalg.norm(factor, 2, axis=(1, 2)) ** 2
    last = np.linalg.norm(run.covariances[:, -1], 2, axis=(1, 2))
    low = np.linalg.norm(K, -2, axis=(1, 2)) ** 2
    rate = 2 * np.linalg.norm(A, 2, axis=(1, 2)) / low
    elapsed = np.expm1(run.stop_time)
    return run, np.log(last / first) / elapsed / rate


def _l2_rising(case: Case) -> tuple[Check, ...]:
    """L2 with K invertible: past any size, but never faster than exponentially."""
    run, rate = _l2_risen(case)
    size = np.linalg.norm(run.covariances[:, -1], 2, axis=(1, 2))
    least = "half of the bound squared, for one direction of two"
    most = "the bound squared, and what one step grows"
    finite = np.sum(np.isfinite(run.t_star))
    return (
        bounded("L2: least size when stopped", np.min(size), ">=", 0.5e6, why=least),
        bounded("L2: greatest size when stopped", np.max(size), "<=", 1e7, why=most),
        counted("L2: runs with a finite blow-up time", finite),
        bounded("L2: rate of growth over its bound", np.max(rate), "<=", 1, **FLOWN),
    )


@statement(
    "castin2025:fig-5",
    source="Figure 5",
    claim=(
        r"For small $\Sigma$ L2 follows softmax with $2A$, to a relative distance of "
        r"order $\|K^\top K\Sigma\|$."
    ),
    hypotheses=r"centred; times below $1/(4\|V\|\|A\|\|\Sigma_0\|)$, when softmax with "
    r"$2A$ cannot blow up yet",
)
def similar(case: Case, *, scale: float = 2.0) -> tuple[Check, ...]:
    """L2 flows from δΣ₀ with V/δ, which take a time of order one.

    Against DOP853 on the equation of softmax with 2A: the order in δ.
    """
    # Softmax has `scale` times A; L2 starts from δΣ₀, with V/δ.
    rng, T = case.rng("similar"), np.linspace(0, 0.6, 9)
    deltas, checks = 0.02 * 0.5 ** np.arange(8), []
    for i in range(case.pick(1, 4)):
        Q, K, V = (M / np.linalg.norm(M, 2) for M in rng.normal(size=(3, 2, 2)))
        Y = np.linalg.cholesky(first_covariance(rng))
        Y *= 0.6 / np.linalg.norm(Y, 2)
        copies = lambda M: np.stack([M] * 8)
        scales = deltas[:, None, None]
        run = l2_paths((copies(Q), copies(K), V / scales), np.sqrt(scales) * Y, T)
        _, expected = moments([(V, scale * K.T @ Q)], (np.zeros(2), Y), T)
        apart = np.abs(run.covariances / scales[:, None] - expected[None])
        errors = apart.max(axis=(1, 2, 3)) / np.max(np.abs(expected))
        checks.append(
            order(f"draw {i}", deltas, errors, 1.0, names=("‖Σ₀‖", "distance"))
        )
    return tuple(checks)


similar.refuted_if("Softmax has A in place of 2A", scale=1.0)
