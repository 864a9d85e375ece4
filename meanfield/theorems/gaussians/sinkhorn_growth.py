"""Growth of Gaussians under Sinkhorn attention."""

from functools import partial

from scipy.linalg import expm

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.measures import Points
from meanfield.theorems._arrays import JaxArray, eqx, jax, jnp, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.theorems.library.ensembles import tokens


@statement(
    "castin2025:prop-4.15-mean",
    source="Proposition 4.15, §4.4",
    claim=r"$\alpha(t) = e^{tV/\epsilon}\alpha_0$, whatever the covariance.",
    hypotheses=r"converged Sinkhorn; any $A$ and $\Sigma$",
    control=(
        "Sinkhorn stops after three half-steps, rows last",
        {"iterations": 3},
        ("α', library", "mean velocity of 30 points, library"),
    ),
)
def mean(case: Case, *, iterations: int | None = None) -> Checks:
    """Compares the library's mean velocities with Vα/ε, and means with exp(tV/ε)α₀.

    Mean velocities are compared for Gaussians of rank two in d = 3 and for 30 weighted
    points. Flows of four Gaussians in the plane, two of them with the same mean, are
    compared with SciPy's matrix exponential.
    """
    stack, ts = lib.ensemble(case.rng("flow"), (2, 2, 2), 4), np.linspace(0, 0.8, 6)
    twin = Member(*(part[[0, 0, 2, 3]] for part in stack))
    twin = twin._replace(factor=stack.factor)
    run = lib.paths("sinkhorn", twin, ts)
    exact_means = [
        [expm(t * m.V / m.epsilon) @ m.mean for t in ts] for m in lib.members(twin)
    ]
    steps = Slack(tolerance=run.tolerance(10), why="steps of 4e-10, amplified tenfold")
    yield from _mean_rates(case, iterations)
    yield gap("α(t), library", run.mean, exact_means, **steps)


@eqx.filter_jit
def _point_rate(
    x: JaxArray, w: JaxArray, m: Member, iterations: int | None
) -> JaxArray:
    r"""Mean velocity $\int v\,d\mu$ of weighted points under Sinkhorn attention."""
    mu = Points.weighted(x, w)
    field = lib.attention("sinkhorn", m, iterations=iterations).field(0.0, mu)
    return mu.weights @ field(mu.tokens)


def _mean_rates(case: Case, iterations: int | None) -> Checks:
    """Compares mean velocities of Gaussians and of points with Vα/ε."""
    stack = lib.ensemble(case.rng("rates"), (3, 2, 2), 4)
    actual = lib.rates("sinkhorn", stack, iterations=iterations).mean
    expected = np.array([m.V @ m.mean / m.epsilon for m in lib.members(stack)])
    (m, *_) = lib.members(stack)
    x, w = tokens(case.rng("points"), 30, 3)
    arrays = jnp.asarray(x), jnp.asarray(w)
    point_rate = _point_rate(*arrays, m, iterations)
    exact = m.V @ (w @ x) / m.epsilon
    slack = Slack(tolerance=1e-12, why="sums of a few products in float64")
    why = "the library's tolerance on log-marginals, 4e-11, times |x|"
    solver_slack = Slack(tolerance=1e-9, why=why)
    yield gap("α', library", actual, expected, **slack)
    yield gap("mean velocity of 30 points, library", point_rate, exact, **solver_slack)


@statement(
    "castin2025:prop-4.17",
    source="Proposition 4.17, §4.4",
    claim=r"In dimension one $s' = \frac{v}{a}(\sqrt{4a^2s^2 + 1} - 1)$, global; "
    r"$s \to \infty$ if $av > 0$, $s \to 0$ if $av < 0$.",
    hypotheses=r"$a = kq \neq 0$; a bandwidth divides $a$ under the root",
    control=(
        "the factor 4 is dropped under the root",
        {"four": 1.0},
        ("time…", "growth…"),
    ),
)
def scalars(case: Case, *, four: float = 4.0) -> Checks:
    r"""Compares the library's flow of four Gaussians on the line with a first integral.

    The flows run to time 8. The times are recovered from a first integral of the
    equation, derived by hand. For $av > 0$, the growth rate over the last half must be
    $2|v|/\epsilon$. For $av < 0$, the variance must be below a bound that tends to
    zero; this bound follows from $\sqrt{1+u^2} - 1 \geq u^2/(2 + u)$ for decreasing
    $u$.
    """
    # With u = 2|a|s/ε, a first integral is asinh u − (1 + √(1 + u²))/u = ±2|v|t/ε + c,
    # where ± is the sign of av.
    stack = lib.line(case.rng("line"))
    run = lib.paths("sinkhorn", stack, lib.LINE_TIMES)
    s = run.covariance[:, :, 0, 0]
    a, v = stack.A[:, :, 0], stack.V[:, :, 0]
    eps = stack.epsilon[:, None]
    root = np.sqrt(four) * np.abs(a) / eps
    u = root * s
    integral = np.arcsinh(u) - (1 + np.sqrt(1 + u**2)) / u
    times = (integral - integral[:, :1]) / (root * v / a)
    gentle = 4 * np.abs(a * v)[2:, 0] / (eps[2:, 0] ** 2 * (2 + u[2:, 0]))
    decay = 1 + gentle * lib.LINE_TIMES[-1] * s[2:, 0]
    least = np.min(s[2:, 0] / s[2:, -1] / decay)
    why = "the rate lies below its limit by at most 1/u, largest at mid-time"
    slack = Slack(tolerance=float(np.max(1 / u[:2, -2])), why=why)
    yield lib.line_time(times, run)
    yield lib.late_growth("2|v|/ε", s[:2], (root * np.abs(v / a))[:2], **slack)
    yield compare("decay to zero: s₀/s(T) over 1 + 4|av|Ts₀/ε²(2 + u₀)", least, ">=", 1)
    yield lib.early_endings(run.code)


@statement(
    "new:N1-global",
    source="ERRATA, N1",
    claim=r"$|M_\Sigma\Sigma| \leq |\Sigma|$, so $|\Sigma'| \leq \frac{2}{\epsilon}|V|"
    r"|\Sigma|$: the Sinkhorn flow of Gaussians is global in every dimension.",
    hypotheses="any Q, K, V, Σ and ε",
)
def bound(case: Case) -> Checks:
    """Searches for violations of the bound on |Σ'| by gradient ascent.

    The ascent differentiates the library's affine field in the plane. It starts from
    matrices with entries of order e, and from bandwidths down to 0.01. Covariances of
    four of the library's flows to time three are compared with Grönwall's exponential,
    and no flow may end early.
    """
    stack, ts = lib.ensemble(case.rng("flow"), (2, 2, 2), 4), np.linspace(0, 3, 6)
    run = lib.paths("sinkhorn", stack._replace(Q=3 * stack.Q), ts)
    size = lambda M: np.linalg.norm(M, 2, axis=(-2, -1))
    rate = 2 * size(stack.V) / stack.epsilon
    envelope = size(stack.covariance)[:, None] * np.exp(rate[:, None] * ts)
    yield ascend(case, "|Σ'|", lambda p: _log_ratio(p, None), _start)
    yield lib.early_endings(run.code)
    yield lib.gronwall(size(run.covariance) / envelope, run.tolerance(10))


@bound.register_control("Sinkhorn stops after its first half-step, which is softmax")
def _(case: Case) -> Checks:
    key, ratio = case.key("softmax"), partial(_log_ratio, iterations=1)
    yield lib.largest_random_ratio(key, "|Σ'|, one half-step", ratio, _start)


def _log_ratio(p: dict[str, JaxArray], iterations: int | None) -> JaxArray:
    r"""Logarithm of $|\Sigma'|\epsilon/2|V||\Sigma|$, from the library's field."""
    Q, K, V, Y = (p[name] for name in "QKVY")
    eps, Sigma = jnp.exp(p["log_epsilon"][0]), Y @ Y.T
    attention = attentions["sinkhorn"](Q, K, V, epsilon=eps, iterations=iterations)
    rate = lib.norm(lib.centred_field(attention, Y).covariance_rate(Sigma))
    return jnp.log(rate * eps / (2 * lib.norm(V) * lib.norm(Sigma)))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    """Random matrices with entries of order e, and a bandwidth from 1e-2 to e."""
    keys = jax.random.split(key, 9)
    log_epsilon = jax.random.uniform(keys[8], (1,), minval=-4.6)
    return lib.plane_matrices(keys) | {"log_epsilon": log_epsilon}
