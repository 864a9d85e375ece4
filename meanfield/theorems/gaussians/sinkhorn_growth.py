"""Growth of Gaussians under Sinkhorn attention."""

from scipy.linalg import expm

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.endings import Status
from meanfield.fields import Affine
from meanfield.measures import Gaussian, Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Check, Checks, statement
from meanfield.theorems._protocols import ascend, bounded, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib
from meanfield.theorems.library.draws import tokens

ENDING = "an ending is counted: nothing is added"
ROUNDING = "sums of a few products in float64"


@statement(
    "castin2025:prop-4.15-mean",
    source="Proposition 4.15, §4.4",
    claim=r"$\alpha(t) = e^{tV/\epsilon}\alpha_0$, whatever the covariance.",
    hypotheses=r"converged Sinkhorn; any $A$ and $\Sigma$",
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
    expected = [
        [expm(t * m.V / m.epsilon) @ m.mean for t in ts] for m in lib.members(twin)
    ]
    flowing = gap(
        "α(t), library",
        run.mean,
        np.array(expected),
        tolerance=run.tolerance(10),
        why="steps of 4e-10, amplified tenfold",
    )
    return (*_mean_rates(case, iterations), flowing)


mean.refuted_if(
    "Sinkhorn stops after three half-steps, rows last",
    seen_by=("α', library", "mean velocity of 30 points, library"),
    iterations=3,
)


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
    yield gap("α', library", found, expected, tolerance=1e-12, why=ROUNDING)
    yield gap(
        "mean velocity of 30 points, library",
        on_points,
        m.V @ (w @ x) / m.epsilon,
        tolerance=1e-9,
        why="the library's tolerance on log-marginals, 4e-11, times |x|",
    )


@statement(
    "castin2025:prop-4.17",
    source="Proposition 4.17, §4.4",
    claim=r"In dimension one $s' = \frac{v}{a}(\sqrt{4a^2s^2 + 1} - 1)$, global; "
    r"$s \to \infty$ if $av > 0$, $s \to 0$ if $av < 0$.",
    hypotheses=r"$a = kq \neq 0$; a bandwidth divides $a$ under the root",
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
    run = lib.paths("sinkhorn", stack, _TS)
    s = run.covariance[:, :, 0, 0]
    a, v = stack.A[:, :, 0], stack.V[:, :, 0]
    eps = stack.epsilon[:, None]
    root = np.sqrt(four) * np.abs(a) / eps
    u = root * s
    integral = np.arcsinh(u) - (1 + np.sqrt(1 + u**2)) / u
    elapsed = (integral - integral[:, :1]) / (root * v / a)
    gentle = 4 * np.abs(a * v)[2:, 0] / (eps[2:, 0] ** 2 * (2 + u[2:, 0]))
    decay = 1 + gentle * _TS[-1] * s[2:, 0]
    least = np.min(s[2:, 0] / s[2:, -1] / decay)
    early = np.count_nonzero(run.code != Status.FINISHED)
    full = np.broadcast_to(_TS, elapsed.shape)
    steps = run.tolerance(100)
    amplified = "steps of 4e-10, amplified by 1/s and the growth of log s, below 100"
    falling = "decay to zero: s₀/s(T) over 1 + 4|av|Ts₀/ε²(2 + u₀)"
    yield gap(
        "time from its first integral", elapsed, full, tolerance=steps, why=amplified
    )
    yield _late_growth(s[:2], u[:2], (root * np.abs(v / a))[:2])
    yield bounded(falling, least, ">=", 1)
    yield bounded("flows that end early", early, "<=", 0, why=ENDING)


scalars.refuted_if(
    "the factor 4 is dropped under the root", seen_by=("time…", "growth…"), four=1.0
)


_TS = np.array([0, 0.5, 1.0, 2.0, 4.0, 8.0])


def _late_growth(s: Array, u: Array, limit: Array) -> Check:
    """The rate of log s over the last half of the time, over its limit."""
    speed = np.diff(np.log(s[:, -2:]), axis=1) / np.diff(_TS[-2:])
    return gap(
        "growth rate over the last half, 2|v|/ε",
        speed / limit,
        np.ones_like(speed),
        tolerance=float(np.max(1 / u[:, -2])),
        why="the rate lies below its limit by at most 1/u, largest at mid-time",
    )


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
    early = np.count_nonzero(run.code != Status.FINISHED)
    yield ascend(case, "|Σ'|", lambda at: _log_ratio(at, None), _start)
    yield bounded("flows that end early", early, "<=", 0, why=ENDING)
    yield bounded(
        "|Σ(t)| over Grönwall's bound",
        np.max(size(run.covariance) / allowed),
        "<=",
        1,
        tolerance=run.tolerance(10),
        why="equality at t = 0; later steps of 4e-10, amplified tenfold",
    )


@bound.refuted_by("Sinkhorn stops after its first half-step, which is softmax")
def _(case: Case) -> Checks:
    drawn = jax.vmap(_start)(jax.random.split(case.key("softmax"), 100))
    ratios = jax.jit(jax.vmap(lambda at: _log_ratio(at, 1)))(drawn)
    top = float(np.exp(np.max(ratios)))
    why = "the ratio at random draws needs no ascent to pass one"
    yield bounded("|Σ'|, one half-step", top, "<=", 1, tolerance=1e-9, why=why)


def _log_ratio(at: dict[str, JaxArray], iterations: int | None) -> JaxArray:
    r"""$|\Sigma'|\epsilon/2|V||\Sigma|$, logarithm, by the library's field."""
    eps = jnp.exp(at["log_epsilon"][0])
    made = attentions["sinkhorn"](
        at["Q"], at["K"], at["V"], epsilon=eps, iterations=iterations
    )
    field = made.field(0.0, Gaussian(jnp.zeros(2), at["Y"]))
    assert isinstance(field, Affine)
    Sigma = at["Y"] @ at["Y"].T
    norm = lambda M: jnp.sqrt(lib.spectrum(M)[1])
    rate = norm(field.covariance_rate(Sigma))
    return jnp.log(rate * eps / (2 * norm(at["V"]) * norm(Sigma)))


def _start(key: PRNGKey) -> dict[str, JaxArray]:
    """Matrices of sizes from e⁻¹ to e³, bandwidths from 1e-2 to e."""
    keys = jax.random.split(key, 9)
    draw = lambda i: (
        jnp.exp(1 + jax.random.normal(keys[i], ()))
        * jax.random.normal(keys[i + 4], (2, 2))
    )
    made = {name: draw(i) for i, name in enumerate("QKVY")}
    return made | {"log_epsilon": jax.random.uniform(keys[8], (1,), minval=-4.6)}
