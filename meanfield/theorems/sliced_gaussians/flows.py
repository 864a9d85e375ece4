"""Gaussians under sliced attention: Euler steps of tokens, and their limit."""

from meanfield.flows import fixed, flow
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap, order
from meanfield.theorems._vocabulary import Change
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref

from . import _ranks as ranks

SLICES, SPAN = 2, np.array([0.0, 1.0])
STEPS = (4, 8, 16)  # numbers of Euler steps of the tokens from time zero to one
FINE = np.array([32, 64, 128, 256])  # steps of the recursion of covariances
WHY_SORTS = (
    "the same sorts and sums in NumPy: rounding, unless two tokens are within it on a "
    "slice"
)
WHY_FLOW = "local errors of 4e-10 of the library's flow and 1e-11 of SciPy's, added up"


@statement(
    "new:N2-flow",
    source="ERRATA, N2",
    claim="Tokens that take Euler steps of length $h$ under a hard sort follow the "
    r"flow of their Gaussian as $n \to \infty$ and $h \to 0$, at order one in $h$. "
    r"Their covariance in the limit $n \to \infty$, for each $h$, has the steps "
    r"$\Sigma_{+} = \Sigma + h(VL\Sigma + \Sigma L^\top V^\top) + h^2V\bigl(L\Sigma "
    r"L^\top + \sum_l\sigma_l^2\mathrm{Cov}(y\,|\,\theta_l\cdot Ky)\bigr)V^\top$.",
    hypotheses=r"tokens of $N(\alpha, \Sigma)$, generic distinct slices",
    remark="In that limit the states and the partners of a token are jointly normal, "
    "so that it stays Gaussian.",
    control=(
        "Q and K are exchanged in the closed form",
        {"pair": lambda p: p.transpose},
        ("Σ(1), library", "Σ of tokens, h = 1/4", "Σ of tokens, h = 1/8"),
    ),
)
def token_flow_limit(case: Case, *, pair: Change = lambda p: p) -> Checks:
    """Compares covariances of tokens after 4, 8 and 16 Euler steps with a recursion.

    NumPy carries 16 clouds of 8000 tokens, with two sorts for each slice and step.
    Differences are in standard errors over the clouds. Neville's scheme extrapolates
    the covariances in $h$. The result, and the library's flow of the Gaussian, are
    compared with the flow of the Gaussian that DOP853 computes. The order in $h$ of the
    recursion is measured, and the library's Euler steps of 1000 tokens are compared
    with NumPy steps.
    """
    problem = ranks.draw_problem(case.rng("flow"), (2, 2, 2), SLICES)
    claim = problem._replace(p=pair(problem.p))
    exact, actual = _flow_covariance(claim), _library(problem)
    fine = [_recursion(claim, count) for count in FINE]
    errors = [float(np.max(np.abs(S - exact))) for S in fine]
    coarse = np.stack([_recursion(claim, count) for count in STEPS])
    yield gap("Σ(1), library", actual, exact, tolerance=1e-7, why=WHY_FLOW)
    yield from _token_checks(case, problem, coarse, exact)
    yield order("order of the recursion", 1 / FINE, errors, 1.0, names=("h", "error"))


def _token_checks(
    case: Case, problem: ranks.SlicedProblem, coarse: Array, exact: Array
) -> Checks:
    """Compares covariances of clouds with a recursion and, as h → 0, with the flow."""
    rng, score = case.rng("flow: clouds"), ranks.score_of_means
    draws = ranks.draw_clouds(rng, problem.law, 8000, case.pick(16, 64))
    covariance = lambda x, count: np.cov(_steps(problem, x, count).T, ddof=0)
    ends, fewer = (
        np.stack([[covariance(x, count) for x in part] for count in STEPS])
        for part in draws
    )
    bias = float(np.max(np.abs(_neville(coarse) - exact)))
    for S, quarter, count, expected in zip(ends, fewer, STEPS, coarse, strict=True):
        yield score(f"Σ of tokens, h = 1/{count}", S, quarter, expected)
    limits = _neville(ends), _neville(fewer)
    yield score("Σ of tokens, h → 0", *limits, exact, bias=bias)
    x = draws[0][0][:1000]
    mu, steps = att.uniform(att.uniform_cloud(x)), fixed(1 / 8)
    run = flow(ranks.attention(problem), mu, SPAN, stepping=steps)
    slack = Slack(tolerance=1e-10, why=WHY_SORTS)
    yield gap("1000 tokens, h = 1/8", run.last, _steps(problem, x, 8), **slack)


def _steps(problem: ranks.SlicedProblem, x: Array, count: int) -> Array:
    """Tokens at time one, after `count` Euler steps."""
    for _ in range(count):
        x = x + ranks.velocities(problem, x) / count
    return x


def _linear_part(problem: ranks.SlicedProblem, Sigma: Array) -> Array:
    return problem.p.V @ np.mean(ranks.linear_parts(problem, Sigma), axis=0)


def _recursion(problem: ranks.SlicedProblem, count: int) -> Array:
    """Covariance at time one of infinitely many tokens, after `count` steps."""
    Sigma, h, V = problem.law.covariance, 1 / count, problem.p.V
    for _ in range(count):
        L = _linear_part(problem, Sigma)
        left = ranks.residuals(problem, Sigma).sum(0) / SLICES**2
        second = L @ Sigma @ L.T + V @ left @ V.T
        Sigma = Sigma + h * (L @ Sigma + Sigma @ L.T) + h**2 * second
    return Sigma


def _flow_covariance(problem: ranks.SlicedProblem) -> Array:
    """Covariance of the Gaussian at time one, from a flow that DOP853 computes."""

    def rate(_: float, Sigma: Array) -> Array:
        half = _linear_part(problem, Sigma) @ Sigma
        return half + half.T

    return ref.integrate(rate, problem.law.covariance, SPAN)[-1]


def _library(problem: ranks.SlicedProblem) -> Array:
    run = flow(ranks.attention(problem), problem.law.gaussian, SPAN)
    Y = np.asarray(run.coordinates[1])[-1]
    return Y @ Y.T


def _neville(values: Array) -> Array:
    """Extrapolates values at steps h, h/2 and h/4 to step zero."""
    first = 2 * values[1:] - values[:-1]
    return (4 * first[1] - first[0]) / 3
