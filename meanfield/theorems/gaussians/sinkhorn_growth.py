"""Growth of Gaussians under Sinkhorn attention."""

from functools import partial

from scipy.linalg import expm

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.measures import Points
from meanfield.theorems._arrays import JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, ascend, bounded, gap
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
    """The library's mean velocity against Vα/ε, its flow against SciPy's exponential.

    Mean velocities of Gaussians of rank two in dimension three and of 30 weighted
    points; flows of four Gaussians in the plane, two of the same mean.
    """
    stack, ts = lib.ensemble(case.rng("flow"), (2, 2, 2), 4), np.linspace(0, 0.8, 6)
    twin = Member(*(part[[0, 0, 2, 3]] for part in stack))
    twin = twin._replace(factor=stack.factor)
    run = lib.paths("sinkhorn", twin, ts)
    moved = lambda m: [expm(t * m.V / m.epsilon) @ m.mean for t in ts]
    steps = Slack(tolerance=run.tolerance(10), why="steps of 4e-10, amplified tenfold")
    yield from _mean_rates(case, iterations)
    yield gap("α(t), library", run.mean, list(map(moved, lib.members(twin))), **steps)


@eqx.filter_jit
def _point_rate(
    x: JaxArray, w: JaxArray, m: Member, iterations: int | None
) -> JaxArray:
    r"""$\int v\,d\mu$ of the library's Sinkhorn on weighted points."""
    mu = Points.weighted(x, w)
    field = lib.attention("sinkhorn", m, iterations=iterations).field(0.0, mu)
    return mu.weights @ field(mu.tokens)


def _mean_rates(case: Case, iterations: int | None) -> Checks:
    """Mean velocities of a Gaussian and of points against Vα/ε."""
    stack = lib.ensemble(case.rng("rates"), (3, 2, 2), 4)
    found = lib.rates("sinkhorn", stack, iterations=iterations).mean
    expected = np.array([m.V @ m.mean / m.epsilon for m in lib.members(stack)])
    (m, *_) = lib.members(stack)
    x, w = tokens(case.rng("points"), 30, 3)
    at = jnp.asarray(x), jnp.asarray(w)
    on_points = _point_rate(*at, lib.on_device(m), iterations)
    exact = m.V @ (w @ x) / m.epsilon
    slack = Slack(tolerance=1e-12, why="sums of a few products in float64")
    why = "the library's tolerance on log-marginals, 4e-11, times |x|"
    solved = Slack(tolerance=1e-9, why=why)
    label = "mean velocity of 30 points, library"
    yield gap("α', library", found, expected, **slack)
    yield gap(label, on_points, exact, **solved)


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
    r"""The library's flow of four Gaussians on the line, to time 8.

    The times are recovered from the first integral of the claim, worked out by hand;
    the growth rate over the last half must be its limit $2|v|/\epsilon$; for $av < 0$
    the decay must outrun a bound that tends to zero, which follows from
    $\sqrt{1+u^2} - 1 \geq u^2/(2 + u)$ where $u$ falls.
    """
    # With u = 2|a|s/ε the first integral is asinh u − (1 + √(1 + u²))/u = ±2|v|t/ε + c;
    # the sign is that of av.
    stack = lib.line(case.rng("line"))
    run = lib.paths("sinkhorn", stack, lib.LINE_TIMES)
    s = run.covariance[:, :, 0, 0]
    a, v = stack.A[:, :, 0], stack.V[:, :, 0]
    eps = stack.epsilon[:, None]
    root = np.sqrt(four) * np.abs(a) / eps
    u = root * s
    integral = np.arcsinh(u) - (1 + np.sqrt(1 + u**2)) / u
    elapsed = (integral - integral[:, :1]) / (root * v / a)
    gentle = 4 * np.abs(a * v)[2:, 0] / (eps[2:, 0] ** 2 * (2 + u[2:, 0]))
    decay = 1 + gentle * lib.LINE_TIMES[-1] * s[2:, 0]
    least = np.min(s[2:, 0] / s[2:, -1] / decay)
    falling = "decay to zero: s₀/s(T) over 1 + 4|av|Ts₀/ε²(2 + u₀)"
    why = "the rate lies below its limit by at most 1/u, largest at mid-time"
    slack = Slack(tolerance=float(np.max(1 / u[:2, -2])), why=why)
    yield lib.line_time(elapsed, run)
    yield lib.late_growth("2|v|/ε", s[:2], (root * np.abs(v / a))[:2], **slack)
    yield bounded(falling, least, ">=", 1)
    yield lib.ended_early(run.code)


@statement(
    "new:N1-global",
    source="ERRATA, N1",
    claim=r"$|M_\Sigma\Sigma| \leq |\Sigma|$, so $|\Sigma'| \leq \frac{2}{\epsilon}|V|"
    r"|\Sigma|$: the Sinkhorn flow of Gaussians is global in every dimension.",
    hypotheses="any Q, K, V, Σ and ε",
)
def bound(case: Case) -> Checks:
    """Adam ascends the ratio through the library's affine field, in the plane.

    From matrices of sizes about e and bandwidths down to 0.01. The library's flows of
    four Gaussians to time three are held against Grönwall's exponential, and their
    endings counted.
    """
    stack, ts = lib.ensemble(case.rng("flow"), (2, 2, 2), 4), np.linspace(0, 3, 6)
    run = lib.paths("sinkhorn", stack._replace(Q=3 * stack.Q), ts)
    size = lambda M: np.linalg.norm(M, 2, axis=(-2, -1))
    rate = 2 * size(stack.V) / stack.epsilon
    allowed = size(stack.covariance)[:, None] * np.exp(rate[:, None] * ts)
    yield ascend(case, "|Σ'|", lambda at: _log_ratio(at, None), _start)
    yield lib.ended_early(run.code)
    yield lib.gronwall(size(run.covariance) / allowed, run.tolerance(10))


@bound.refuted_by("Sinkhorn stops after its first half-step, which is softmax")
def _(case: Case) -> Checks:
    ratio = partial(_log_ratio, iterations=1)
    yield lib.at_random(case.key("softmax"), "|Σ'|, one half-step", ratio, _start)


def _log_ratio(at: dict[str, JaxArray], iterations: int | None) -> JaxArray:
    r"""$|\Sigma'|\epsilon/2|V||\Sigma|$, logarithm, by the library's field."""
    Q, K, V, Y = (at[name] for name in "QKVY")
    eps, Sigma = jnp.exp(at["log_epsilon"][0]), Y @ Y.T
    made = attentions["sinkhorn"](Q, K, V, epsilon=eps, iterations=iterations)
    rate = lib.norm(lib.centred_field(made, Y).covariance_rate(Sigma))
    return jnp.log(rate * eps / (2 * lib.norm(V) * lib.norm(Sigma)))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    """Matrices of sizes from e⁻¹ to e³, bandwidths from 1e-2 to e."""
    keys = jax.random.split(key, 9)
    log_epsilon = jax.random.uniform(keys[8], (1,), minval=-4.6)
    return lib.plane_matrices(keys) | {"log_epsilon": log_epsilon}
