"""Gaussians under sliced attention: flows of tokens in steps, and their limit."""

from meanfield.flows import fixed, flow
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap, order
from meanfield.theorems._vocabulary import Change
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref

from . import _ranks as ranks

SLICES, SPAN = 2, np.array([0.0, 1.0])
STEPS = (4, 8, 16)  # of tokens, to time one
FINE = np.array([32, 64, 128, 256])  # of the moments
SORTED = (
    "the same sorts and sums in NumPy: rounding, unless two tokens are within it on a "
    "slice"
)
FLOWN = "steps of 4e-10 of the library's flow and of 1e-11 of SciPy's, added up"


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
        "Q and K change places in the closed form",
        {"pair": lambda p: p.exchanged},
        ("Σ(1), library", "Σ of tokens, h = 1/4", "Σ of tokens, h = 1/8"),
    ),
)
def flowing(case: Case, *, pair: Change = lambda p: p) -> Checks:
    r"""Two sorts a slice and a step, in NumPy, to t = 1, by 4, 8 and 16 steps.

    The covariances of 16 clouds of 8 000 tokens against the recursion, in standard
    errors from cloud to cloud; and, extrapolated in $h$ by Neville's scheme, against
    the library's flow of the Gaussian, whose covariance SciPy's DOP853 confirms. The
    recursion alone against that flow, as a power of $h$; and the library's steps of a
    thousand tokens.
    """
    at = ranks.drawn(case.rng("flow"), (2, 2, 2), SLICES)
    exact, closed = _solved(at, pair), _library(at)
    fine = [_recursion(at, count, pair) for count in FINE]
    errors = [float(np.max(np.abs(S - exact))) for S in fine]
    coarse = np.stack([_recursion(at, count, pair) for count in STEPS])
    yield gap("Σ(1), library", closed, exact, tolerance=1e-7, why=FLOWN)
    yield from _of_tokens(case, at, coarse, exact)
    yield order("order of the recursion", 1 / FINE, errors, 1.0, names=("h", "error"))


def _of_tokens(case: Case, at: ranks.Sliced, coarse: Array, exact: Array) -> Checks:
    """Covariances of clouds beside the recursion's, and beside the flow's for h → 0."""
    rng, score = case.rng("flow: clouds"), ranks.score_of_means
    draws = ranks.of_clouds(rng, at.law, 8000, case.pick(16, 64))
    covariance = lambda x, count: np.cov(_steps(at, x, count).T, ddof=0)
    ends, fewer = (
        np.stack([[covariance(x, count) for x in part] for count in STEPS])
        for part in draws
    )
    bias = float(np.max(np.abs(_neville(coarse) - exact)))
    for S, few, count, expected in zip(ends, fewer, STEPS, coarse, strict=True):
        yield score(f"Σ of tokens, h = 1/{count}", S, few, expected)
    limits = _neville(ends), _neville(fewer)
    yield score("Σ of tokens, h → 0", *limits, exact, bias=bias)
    x = draws[0][0][:1000]
    mu, steps = att.uniform(att.bare(x)), fixed(1 / 8)
    run = flow(ranks.attention(at), mu, SPAN, stepping=steps)
    slack = Slack(tolerance=1e-10, why=SORTED)
    yield gap("1000 tokens, h = 1/8", run.last, _steps(at, x, 8), **slack)


def _steps(at: ranks.Sliced, x: Array, count: int) -> Array:
    """Tokens at time one, after so many of Euler's steps."""
    for _ in range(count):
        x = x + ranks.velocities(at, x) / count
    return x


def _slope(at: ranks.Sliced, Sigma: Array, pair: Change) -> Array:
    return at.p.V @ np.mean(ranks.slopes(pair(at.p), at.directions, Sigma), axis=0)


def _recursion(at: ranks.Sliced, count: int, pair: Change) -> Array:
    """The covariance at time one of infinitely many tokens, in so many steps."""
    Sigma, h, V = at.law.covariance, 1 / count, at.p.V
    for _ in range(count):
        L = _slope(at, Sigma, pair)
        left = ranks.residuals(pair(at.p), at.directions, Sigma).sum(0) / SLICES**2
        second = L @ Sigma @ L.T + V @ left @ V.T
        Sigma = Sigma + h * (L @ Sigma + Sigma @ L.T) + h**2 * second
    return Sigma


def _solved(at: ranks.Sliced, pair: Change) -> Array:
    """The covariance at time one of the flow, by DOP853."""

    def rate(_: float, Sigma: Array) -> Array:
        half = _slope(at, Sigma, pair) @ Sigma
        return half + half.T

    return ref.integrated(rate, at.law.covariance, SPAN)[-1]


def _library(at: ranks.Sliced) -> Array:
    run = flow(ranks.attention(at), at.law.gaussian, SPAN)
    Y = np.asarray(run.coordinates[1])[-1]
    return Y @ Y.T


def _neville(values: Array) -> Array:
    """The value at step zero from those at a step, its half and its quarter."""
    first = 2 * values[1:] - values[:-1]
    return (4 * first[1] - first[0]) / 3
