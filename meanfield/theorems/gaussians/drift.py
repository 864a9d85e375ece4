r"""Gaussians under softmax attention beside an affine drift.

That attention beside an affine feed-forward part keeps Gaussians Gaussian, that Riccati
equations are behind it, and that the covariance may come to rest or blow up, is
announced in the abstract of Alcalde, Ji and Zuazua, *Reachability and asymptotics of
Gaussian Transformer dynamics*, arXiv:2606.07600 (2026), of which no more was read. The
formulas here are our own. Under softmax with $V = I$ the field is $x \mapsto \alpha +
\Sigma A x/\epsilon + Mx + b$, so that $\Sigma' = \Sigma S\Sigma + M\Sigma + \Sigma
M^\top$ with $S = (A + A^\top)/\epsilon$. Hence $P = \Sigma^{-1}$ has $P' = -P\Sigma'P
= -S - PM - M^\top P$, which is linear: $(e^{M^\top t}Pe^{Mt})' = -e^{M^\top t}Se^{Mt}$.
"""

from itertools import pairwise
from typing import NamedTuple

from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.optimize import root_scalar

from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics, Drift, Sum, stacked
from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import gap
from meanfield.theorems._vocabulary import Law
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.reference import formulas as ref

UNIT = np.linspace(0, 1, 9)
LATE = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0])  # as many as UNIT
SCAN = 200  # times at which a blow-up is looked for, before its root is found
NEAR = 0.9  # of the time of a blow-up: later covariances magnify errors of steps


class _Problem(NamedTuple):
    """Softmax with `V = I` and scores `A`, beside a drift, from a law."""

    A: Array
    epsilon: float
    M: Array
    b: Array
    law: Law

    @property
    def S(self) -> Array:
        return (self.A + self.A.T) / self.epsilon

    @property
    def factor(self) -> Array:
        return self.law.factor


@statement(
    "new:drift-precision",
    source="This project",
    claim=r"Under softmax beside a drift $Mx + b$, $P = \Sigma^{-1}$ solves $P' = -S - "
    r"PM - M^\top P$, $S = (A + A^\top)/\epsilon$: $\Sigma = e^{Mt}Y(I - Y^\top "
    r"JY)^{-1}Y^\top e^{M^\top t}$ with $J = \int_0^t e^{M^\top s}Se^{Ms}ds$, until "
    r"$\lambda_{\max}(Y^\top JY) = 1$, where it blows up; $\alpha' = (I + \Sigma "
    r"A/\epsilon + M)\alpha + b$.",
    hypotheses=r"$V = I$, $\Sigma_0 = YY^\top$ of any rank",
    control=(
        "M is transposed, and half of b missing",
        {"turn": np.transpose, "share": 0.5},
        ("covariance, d = 3", "mean, d = 3"),
    ),
)
def precision(case: Case, *, turn: Unary = lambda M: M, share: float = 1.0) -> Checks:
    """Flows of random A, M and b in d = 3, at full size 1 too, to t = 1 or a blow-up.

    Covariances against van Loan's exponential, blow-up times against a root of it,
    means against DOP853 on the equations of α and Σ.
    """
    for d in case.pick((3,), (1, 3)):
        problems = _draws(case, d)
        start = np.stack([p.law.mean for p in problems]), lib.starts(problems)[1]
        run = lib.paths(_beside(problems), start, UNIT)
        times = np.array([_escape(p) for p in problems])
        seen = [UNIT[NEAR * t >= UNIT] for t in times]
        turned = [p._replace(M=turn(p.M)) for p in problems]
        covariances = tuple(map(_covariances, turned, seen))
        pushed = [p._replace(b=share * p.b) for p in problems]
        means = tuple(map(_means, pushed, seen))
        yield _compared(f"covariance, d = {d}", run.covariances, covariances)
        yield _compared(f"mean, d = {d}", run.means, means)
        yield from lib.of_blow_ups(run, times, f"d = {d}")


def _compared(label: str, flown: Array, expected: tuple[Array, ...]) -> Check:
    """What was flown against what is expected of each, over the size of that."""
    sizes = [np.max(np.abs(each)) for each in expected]
    both = zip(flown, expected, sizes, strict=True)
    pairs = [(path[: len(each)] / size, each / size) for path, each, size in both]
    return gap(label, *map(np.concatenate, zip(*pairs, strict=True)), **lib.FLOWN)


@statement(
    "new:drift-limits",
    source="This project",
    claim=r"(i) If $M$ has its spectrum in $\mathrm{Re} > 0$ and $A + A^\top \prec 0$, "
    r"then $\Sigma \to P_*^{-1}$ with $P_*M + M^\top P_* = -S$. (ii) If in "
    r"$\mathrm{Re} < 0$ and $A + A^\top \succ 0$, there is blow-up if and only if "
    r"$\lambda_{\max}(Y^\top J_\infty Y) > 1$ with $M^\top J_\infty + J_\infty M = "
    r"-S$; below, $\Sigma \to 0$.",
    hypotheses=r"softmax, $V = I$, a drift $Mx$, $\Sigma_0 = YY^\top \succ 0$",
    control=(
        "The limit is half as large, and so is the least start that blows up",
        {"scale": 0.5, "about": 2.0},
        ("limits", "wrong endings, either side"),
    ),
)
def limits(case: Case, *, about: float = 1.0, scale: float = 1.0) -> Checks:
    """Flows in d = 3 to t = 40: limits, and starts a tenth to either side of the limit.

    P and J from SciPy's solver of Lyapunov equations; times of blow-ups from a root.
    """
    outward = _sided(case, 1.0)
    still = lib.paths(_beside(outward), lib.starts(outward), LATE)
    rest = [np.linalg.inv(_late_J(p)) for p in outward]
    inward = [
        p._replace(law=p.law._replace(factor=p.factor * np.sqrt(share / _share(p))))
        for p in _sided(case, -1.0)
        for share in (0.9, 1.1)
    ]
    run = lib.paths(_beside(inward), lib.starts(inward), LATE)
    share = np.array([_share(p) for p in inward]) * about
    ends = [_escape(p, LATE[-1]) for p in inward]
    times = np.where(share > 1, np.minimum(ends, LATE[-1]), np.inf)
    below = run.covariances[::2, -1]
    yield gap("limits", still.covariances[:, -1], scale * np.stack(rest), **lib.FLOWN)
    yield gap("covariances below", below, 0 * below, scale=1.0, **lib.FLOWN)
    yield from lib.of_blow_ups(run, times, "either side")


def _beside(problems: list[_Problem]) -> AbstractDynamics:
    """The library's dynamics of each, stacked."""
    made = []
    for p in problems:
        eye = np.eye(len(p.A))
        softmax = attentions["softmax"](p.A, eye, eye, epsilon=p.epsilon)
        made.append(Sum(softmax, Drift(p.M, p.b)))
    return stacked(made)


def _draws(case: Case, d: int) -> list[_Problem]:
    """Random problems, half of low rank; half blow up, well before the end."""
    rng, made, half = case.rng(f"d = {d}"), {True: [], False: []}, case.pick(4, 16)
    while min(map(len, made.values())) < half:
        A, M = lib.sized(rng.normal(size=(2, d, d)), rng.uniform(0.5, 2))
        Y = rng.normal(size=(d, d)) / np.sqrt(d)
        Y[:, 0] *= d == 1 or rng.integers(2)
        b, mean = rng.normal(size=(2, d)) / 2
        p = _Problem(A, rng.uniform(0.6, 1.6), M, b, Law(mean, Y))
        escape = _escape(p, 1.1)
        if 0.2 < escape < 1 / 1.1 or escape == np.inf:
            made[escape < 1].append(p)
    return [*made[True][:half], *made[False][:half]]


def _sided(case: Case, sign: float) -> list[_Problem]:
    """`M` with its spectrum on one side, `A + Aᵀ` definite of the other sign."""
    rng, made = case.rng(f"side {sign}"), []
    for _ in range(case.pick(4, 16)):
        U, W = lib.rotation(rng, 3), rng.normal(size=(2, 3, 3)) / 3
        M = sign * ((U * rng.uniform(0.4, 1, size=3)) @ U.T + W[0] - W[0].T)
        A = -sign * ((U.T * rng.uniform(0.3, 1, size=3)) @ U) + W[1] - W[1].T
        Y = np.linalg.cholesky((U * rng.uniform(0.3, 1, size=3)) @ U.T)
        zero = np.zeros(3)
        made.append(_Problem(A, rng.uniform(0.6, 1.6), M, zero, Law(zero, Y)))
    return made


def _share(p: _Problem) -> float:
    r"""$\lambda_{\max}(Y^\top J_\infty Y)$."""
    return _top(p.factor, _late_J(p))


def _late_J(p: _Problem) -> Array:
    r"""The solution of $M^\top J + JM = -S$."""
    return solve_continuous_lyapunov(p.M.T, -p.S)


def _top(factor: Array, J: Array) -> float:
    return float(np.linalg.eigvalsh(factor.T @ J @ factor)[-1])


def _exponential(p: _Problem, t: float) -> tuple[Array, Array]:
    r"""$e^{Mt}$ and $J(t)$, blocks of one exponential: van Loan 1978."""
    d = len(p.M)
    block = expm(t * np.block([[-p.M.T, p.S], [np.zeros((d, d)), p.M]]))
    E = block[d:, d:]
    J = E.T @ block[:d, d:]
    return E, (J + J.T) / 2


def _escape(p: _Problem, end: float = 1.0) -> float:
    """The first time when a precision vanishes; infinite if there is none."""
    excess = lambda t: _top(p.factor, _exponential(p, t)[1]) - 1
    ts = np.linspace(0, end, SCAN + 1)
    for left, right in pairwise(ts):
        if excess(right) > 0:
            return root_scalar(excess, bracket=(left, right), xtol=1e-14).root
    return np.inf


def _covariances(p: _Problem, ts: Array) -> Array:
    found = []
    for E, J in (_exponential(p, t) for t in ts):
        inner = np.eye(p.factor.shape[1]) - p.factor.T @ J @ p.factor
        found.append(E @ p.factor @ np.linalg.solve(inner, p.factor.T @ E.T))
    return np.stack(found)


def _means(p: _Problem, ts: Array) -> Array:
    r"""Of $\alpha' = (I + \Sigma A/\epsilon + M)\alpha + b$, by DOP853."""
    A, M, b = p.A / p.epsilon, p.M, p.b

    def rate(_: float, y: Array) -> Array:
        alpha, Sigma = y[:, 0], y[:, 1:]
        half = (Sigma @ A + M) @ Sigma
        mean = alpha + (Sigma @ A + M) @ alpha + b
        return np.column_stack([mean, half + half.T])

    start = np.column_stack([p.law.mean, p.law.covariance])
    return ref.integrated(rate, start, ts)[:, :, 0]
