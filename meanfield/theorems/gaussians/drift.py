r"""Gaussians under softmax attention with an affine drift.

The abstract of Alcalde, Ji and Zuazua, *Reachability and asymptotics of Gaussian
Transformer dynamics*, arXiv:2606.07600 (2026), announces that attention with an affine
feed-forward part keeps Gaussians Gaussian, with covariances that solve Riccati
equations, and that the covariance may converge or blow up. Only that abstract was read;
the formulas here are our own.
Under softmax with $V = I$ the field is $x \mapsto \alpha +
\Sigma A x/\epsilon + Mx + b$, so that $\Sigma' = \Sigma S\Sigma + M\Sigma + \Sigma
M^\top$ with $S = (A + A^\top)/\epsilon$. Hence $P = \Sigma^{-1}$ has $P' = -P\Sigma'P
= -S - PM - M^\top P$, which is linear: $(e^{M^\top t}Pe^{Mt})' = -e^{M^\top t}Se^{Mt}$.
"""

from itertools import pairwise
from typing import NamedTuple

from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.optimize import root_scalar

from meanfield.attention import attentions
from meanfield.dynamics import AbstractDynamics, Drift, Sum, stack_trees
from meanfield.theorems._arrays import Array, Unary, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import gap
from meanfield.theorems._vocabulary import Law
from meanfield.theorems.library import gaussian_flows as lib
from meanfield.theorems.reference import formulas as ref

UNIT = np.linspace(0, 1, 9)
# `LATE` has as many times as `UNIT`, so that both share one compiled program.
LATE = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0])
SCAN = 200  # number of steps in the search for an interval that contains the blow-up
# Flows are compared up to the share `BLOW_UP_SHARE` of the blow-up time. Closer to the
# blow-up, covariances are so large that they magnify the errors of steps.
BLOW_UP_SHARE = 0.9


class _Problem(NamedTuple):
    """Softmax with `V = I` and scores `A`, a drift Mx + b, and the initial law."""

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
    claim=r"Under softmax plus a drift $Mx + b$, $P = \Sigma^{-1}$ solves $P' = -S - "
    r"PM - M^\top P$, $S = (A + A^\top)/\epsilon$: $\Sigma = e^{Mt}Y(I - Y^\top "
    r"JY)^{-1}Y^\top e^{M^\top t}$ with $J = \int_0^t e^{M^\top s}Se^{Ms}ds$, until "
    r"$\lambda_{\max}(Y^\top JY) = 1$, where it blows up; $\alpha' = (I + \Sigma "
    r"A/\epsilon + M)\alpha + b$.",
    hypotheses=r"$V = I$, $\Sigma_0 = YY^\top$ of any rank",
    control=(
        "M is transposed, and b is halved",
        {"turn": np.transpose, "share": 0.5},
        ("covariance, d = 3", "mean, d = 3"),
    ),
)
def precision(case: Case, *, turn: Unary = lambda M: M, share: float = 1.0) -> Checks:
    """Compares the library's flows of random A, M and b with their closed form.

    The flows in d = 3, and at full size also in d = 1, run to t = 1 or to a blow-up. J
    comes from van Loan's matrix exponential, blow-up times from the root of λ_max(YᵀJY)
    = 1, and means from DOP853, which solves the equations of α and Σ.
    """
    for d in case.pick((3,), (1, 3)):
        problems = _draws(case, d)
        start = np.stack([p.law.mean for p in problems]), lib.starts(problems)[1]
        run = lib.paths(_drift_dynamics(problems), start, UNIT)
        times = np.array([_escape(p) for p in problems])
        early_times = [UNIT[BLOW_UP_SHARE * t >= UNIT] for t in times]
        turned_problems = [p._replace(M=turn(p.M)) for p in problems]
        covariances = tuple(map(_covariances, turned_problems, early_times))
        scaled_problems = [p._replace(b=share * p.b) for p in problems]
        means = tuple(map(_means, scaled_problems, early_times))
        yield _path_gap(f"covariance, d = {d}", run.covariances, covariances)
        yield _path_gap(f"mean, d = {d}", run.means, means)
        yield from lib.blow_up_checks(run, times, f"d = {d}")


def _path_gap(label: str, flown: Array, expected: tuple[Array, ...]) -> Check:
    """Compares paths with the expected ones, each divided by its largest entry."""
    sizes = [np.max(np.abs(values)) for values in expected]
    rows = zip(flown, expected, sizes, strict=True)
    pairs = [(path[: len(values)] / size, values / size) for path, values, size in rows]
    return lib.flow_gap(label, *map(np.concatenate, zip(*pairs, strict=True)))


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
        "The limit is halved, and so is the threshold of the start for a blow-up",
        {"scale": 0.5, "start_scale": 2.0},
        ("limits", "wrong endings, either side"),
    ),
)
def limits(case: Case, *, start_scale: float = 1.0, scale: float = 1.0) -> Checks:
    """Compares limits and endings of the library's flows in d = 3 with closed forms.

    The flows run to t = 40. For part (ii) of the claim, half of the starts lie a tenth
    below the threshold and half a tenth above it. SciPy's Lyapunov solver gives P and
    J, and a root search gives the blow-up times.
    """
    outward = _side_problems(case, 1.0)
    outward_run = lib.paths(_drift_dynamics(outward), lib.starts(outward), LATE)
    rest = [np.linalg.inv(_late_J(p)) for p in outward]
    inward = [
        p._replace(law=p.law._replace(factor=p.factor * np.sqrt(share / _share(p))))
        for p in _side_problems(case, -1.0)
        for share in (0.9, 1.1)
    ]
    run = lib.paths(_drift_dynamics(inward), lib.starts(inward), LATE)
    share = np.array([_share(p) for p in inward]) * start_scale
    ends = [_escape(p, LATE[-1]) for p in inward]
    times = np.where(share > 1, np.minimum(ends, LATE[-1]), np.inf)
    low_covariances = run.covariances[::2, -1]
    yield lib.flow_gap("limits", outward_run.covariances[:, -1], scale * np.stack(rest))
    yield gap(
        "covariances below",
        low_covariances,
        0 * low_covariances,
        scale=1.0,
        **lib.FLOW_SLACK,
    )
    yield from lib.blow_up_checks(run, times, "either side")


def _drift_dynamics(problems: list[_Problem]) -> AbstractDynamics:
    """Stack of the library's dynamics, with one member for each problem."""
    dynamics = []
    for p in problems:
        eye = np.eye(len(p.A))
        softmax = attentions["softmax"](p.A, eye, eye, epsilon=p.epsilon)
        dynamics.append(Sum(softmax, Drift(p.M, p.b)))
    return stack_trees(dynamics)


def _draws(case: Case, d: int) -> list[_Problem]:
    """Random problems: half blow up before t = 1, and about half have rank d - 1."""
    rng, groups, half = case.rng(f"d = {d}"), {True: [], False: []}, case.pick(4, 16)
    while min(map(len, groups.values())) < half:
        A, M = lib.scale_to_norm(rng.normal(size=(2, d, d)), rng.uniform(0.5, 2))
        Y = rng.normal(size=(d, d)) / np.sqrt(d)
        Y[:, 0] *= d == 1 or rng.integers(2)
        b, mean = rng.normal(size=(2, d)) / 2
        p = _Problem(A, rng.uniform(0.6, 1.6), M, b, Law(mean, Y))
        escape = _escape(p, 1.1)
        if 0.2 < escape < 1 / 1.1 or escape == np.inf:
            groups[escape < 1].append(p)
    return [*groups[True][:half], *groups[False][:half]]


def _side_problems(case: Case, sign: float) -> list[_Problem]:
    """Problems where Re spec(M) has the sign `sign` and A + Aᵀ the opposite sign."""
    rng, problems = case.rng(f"side {sign}"), []
    for _ in range(case.pick(4, 16)):
        U, W = lib.rotation(rng, 3), rng.normal(size=(2, 3, 3)) / 3
        M = sign * ((U * rng.uniform(0.4, 1, size=3)) @ U.T + W[0] - W[0].T)
        A = -sign * ((U.T * rng.uniform(0.3, 1, size=3)) @ U) + W[1] - W[1].T
        Y = np.linalg.cholesky((U * rng.uniform(0.3, 1, size=3)) @ U.T)
        zero = np.zeros(3)
        problems.append(_Problem(A, rng.uniform(0.6, 1.6), M, zero, Law(zero, Y)))
    return problems


def _share(p: _Problem) -> float:
    r"""$\lambda_{\max}(Y^\top J_\infty Y)$, which exceeds one if there is a blow-up."""
    return _top(p.factor, _late_J(p))


def _late_J(p: _Problem) -> Array:
    r"""Solution $J_\infty$ of $M^\top J + JM = -S$."""
    return solve_continuous_lyapunov(p.M.T, -p.S)


def _top(factor: Array, J: Array) -> float:
    return float(np.linalg.eigvalsh(factor.T @ J @ factor)[-1])


def _exponential(p: _Problem, t: float) -> tuple[Array, Array]:
    """$e^{Mt}$ and $J(t)$, as blocks of one matrix exponential (van Loan 1978)."""
    d = len(p.M)
    block = expm(t * np.block([[-p.M.T, p.S], [np.zeros((d, d)), p.M]]))
    E = block[d:, d:]
    J = E.T @ block[:d, d:]
    return E, (J + J.T) / 2


def _escape(p: _Problem, end: float = 1.0) -> float:
    """First time at which an eigenvalue of the precision vanishes, or infinity."""
    excess = lambda t: _top(p.factor, _exponential(p, t)[1]) - 1
    ts = np.linspace(0, end, SCAN + 1)
    for left, right in pairwise(ts):
        if excess(right) > 0:
            return root_scalar(excess, bracket=(left, right), xtol=1e-14).root
    return np.inf


def _covariances(p: _Problem, ts: Array) -> Array:
    covariances = []
    for E, J in (_exponential(p, t) for t in ts):
        inner = np.eye(p.factor.shape[1]) - p.factor.T @ J @ p.factor
        covariances.append(E @ p.factor @ np.linalg.solve(inner, p.factor.T @ E.T))
    return np.stack(covariances)


def _means(p: _Problem, ts: Array) -> Array:
    r"""Means by DOP853, from $\alpha' = (I + \Sigma A/\epsilon + M)\alpha + b$."""
    A, M, b = p.A / p.epsilon, p.M, p.b

    def rate(_: float, y: Array) -> Array:
        alpha, Sigma = y[:, 0], y[:, 1:]
        half = (Sigma @ A + M) @ Sigma
        mean = alpha + (Sigma @ A + M) @ alpha + b
        return np.column_stack([mean, half + half.T])

    start = np.column_stack([p.law.mean, p.law.covariance])
    return ref.integrate(rate, start, ts)[:, :, 0]
