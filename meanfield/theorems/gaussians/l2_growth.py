"""Growth of Gaussians under L2 attention."""

from collections.abc import Callable

from meanfield._typing import PRNGKey
from meanfield.attention import attentions
from meanfield.endings import Status
from meanfield.theorems._arrays import Array, JaxArray, columns, jax, jnp, np
from meanfield.theorems._ascents import ascend
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems._vocabulary import Member
from meanfield.theorems.library import ensembles as lib


@statement(
    "castin2025:lemma-4.12",
    source="Lemma 4.12, §4.3",
    claim=r"If $K^\top K \succ 0$ then $|\Sigma'| \leq 2|V||A||\Sigma| / "
    r"\lambda_{\min}(K^\top K)$; if $Q = K$, of any rank, then $|L\Sigma| \leq "
    r"|V||\Sigma|$. In both cases the Gaussian flow is global.",
    hypotheses=r"$K^\top K \succ 0$, or $Q = K$; $A = K^\top Q$, $\epsilon = 1$",
    remark="C11: for other singular K there is blow-up in finite time, so L2 attention "
    "does not rule out divergence.",
)
def growth(case: Case) -> Checks:
    """Searches for violations of both bounds of Lemma 4.12 by gradient ascent.

    The ascent differentiates the library's affine field in the plane. It starts from
    random matrices with entries of order e. Covariances of four of the library's flows
    are compared with Grönwall's exponential, and no flow may end early.
    """
    ts = np.linspace(0, 5, 6)
    # In two members K is invertible, in one Q = K has rank one, and one has the data of
    # erratum C11, with an invertible K.
    ensemble = lib.ensemble(case.rng("flow"), (2, 2, 2), 4)
    _, factor, Q, K, V, _ = map(np.copy, ensemble)
    Q[2, 1] = 0
    K[2] = Q[2]
    K[:2] += np.eye(2)
    K[3], Q[3], V[3] = np.diag([1, 0.3]), _Q, _V
    factor[3] = np.linalg.cholesky(_SIGMA)
    stack = ensemble._replace(Q=Q, K=K, V=V, factor=factor, epsilon=np.ones(4))
    run = lib.paths("l2", stack, ts)
    start = _start(Y=2, Q=2, K=2, V=2)
    yield ascend(case, "|Σ'|, K invertible", _eigenvalue_ratio, start)
    yield ascend(case, "|LΣ|, Q = K a row", _value_ratio, _start(Y=2, Q=1, V=2))
    yield lib.early_endings(run.code)
    yield lib.gronwall(_envelope(stack, run, ts), run.tolerance(10))


@growth.register_control(
    "K is one row, the positive eigenvalue of KᵀK replaces the smallest; then Q ≠ K"
)
def _(case: Case) -> Checks:
    key, start = case.key("rows"), _start(Y=2, Q=1, K=1, V=2)
    ratios = {"|Σ'|, K a row": _eigenvalue_ratio, "|LΣ|, rows Q ≠ K": _value_ratio}
    for label, ratio in ratios.items():
        yield lib.largest_random_ratio(key, label, ratio, start, count=200)


@growth.register_misprint(
    "C11",
    claim=r"for all Q, K, V the covariance exists for all times: L2 attention "
    r"does not blow up",
    correction=r"if $K^\top K$ is singular and $Q \neq K$ it may; here "
    r"$\Sigma_{12}(t) = 1/(2 - 2t/3)$ until $t_* = 3$, and with $K = "
    r"\mathrm{diag}(1, \kappa)$, $\kappa > 0$, there is none",
    counterexample="K = diag(1, 0), Q = e₁e₂ᵀ, V = diag(0, 1), Σ₀ = [[1, ½], [½, 1]]",
)
def _(_: Case) -> Counterexample:
    """Compares the library's blow-up time and covariances with the closed form."""
    ts = np.array([0, 0.5 * _T_STAR, 0.9 * _T_STAR, 0.95 * _T_STAR, _T_STAR + 1, 5])
    run = lib.paths("l2", _kappa_members([0.0, 0.1, 0.3, 1.0]), ts)
    early = run.code != Status.FINISHED
    times = ts[:4]
    b = 1 / (2 - 2 * times / 3)
    exact = np.stack([np.ones(4), b, (b / _SIGMA[0, 1]) ** 2], axis=1)
    entries = run.covariance[0, :4][:, [0, 0, 1], [0, 1, 1]]
    late = ts[-1] - np.nan_to_num(run.t_star[0], nan=ts[-1])
    why = "steps of 4e-10; at 0.95 t* a shift of time is amplified by t/(t* − t)"
    steps = Slack(tolerance=run.tolerance(100), why=why)
    why = "the flow's own error of its t*, at most 1e-2"
    time_slack = Slack(tolerance=float(min(run.t_star_error[0], 1e-2)), why=why)
    count_why = "an ending is counted: nothing is added"
    return Counterexample(
        (
            compare("flows with a blow-up", np.sum(early), "<=", 0, why=count_why),
            compare("time missing from five", late, "<=", 0),
        ),
        (
            compare("t*", run.t_star[0], "=", _T_STAR, **time_slack),
            gap("Σ₁₁, Σ₁₂, Σ₂₂ before t*", entries / exact, np.ones((4, 3)), **steps),
            compare("κ = 0 does not blow up", run.code[0] != Status.BLOW_UP, "<=", 0),
            compare("κ > 0 ends early", np.sum(early[1:]), "<=", 0, why=count_why),
        ),
    )


def _linear(p: dict[str, JaxArray]) -> JaxArray:
    """Linear part of the library's L2 field of a centred Gaussian."""
    attention = attentions["l2"](p["Q"], p.get("K", p["Q"]), jnp.asarray(p["V"]))
    return lib.centred_field(attention, p["Y"]).linear


def _eigenvalue_ratio(p: dict[str, JaxArray]) -> JaxArray:
    r"""Logarithm of $|\Sigma'|\lambda_{\min}(K^\top K) / 2|V||A||\Sigma|$.

    If K has one row, $\lambda_{\min}$ is the positive eigenvalue of $K^\top K$.
    """
    L, Sigma, K = _linear(p), p["Y"] @ p["Y"].T, p["K"]
    rate = L @ Sigma + Sigma @ L.T
    bound = 2 * lib.norm(p["V"]) * lib.norm(K.T @ p["Q"]) * lib.norm(Sigma)
    smallest = jnp.sum(K**2) if K.shape[0] == 1 else lib.spectrum(K)[0]
    return jnp.log(lib.norm(rate) / bound) + jnp.log(smallest)


def _value_ratio(p: dict[str, JaxArray]) -> JaxArray:
    r"""Logarithm of $|L\Sigma| / |V||\Sigma|$."""
    Sigma = p["Y"] @ p["Y"].T
    size = lib.norm(p["V"]) * lib.norm(Sigma)
    return jnp.log(lib.norm(_linear(p) @ Sigma) / size)


def _start(**rows: int) -> Callable[[PRNGKey], dict[str, JaxArray]]:
    """Makes a function that draws matrices with the given numbers of rows.

    The entries of the matrices are of order e.
    """

    def draw(key: PRNGKey) -> dict[str, JaxArray]:
        keys = jax.random.split(key, 2 * len(rows))
        matrices = {}
        for i, (name, count) in enumerate(rows.items()):
            size = jnp.exp(1 + jax.random.normal(keys[2 * i], ()))
            matrices[name] = size * jax.random.normal(keys[2 * i + 1], (count, 2))
        return matrices

    return draw


def _envelope(stack: Member, run: lib.Paths, ts: Array) -> float:
    """Largest ratio of |Σ(t)| to Grönwall's bound, over members and frames."""
    size = lambda M: np.linalg.norm(M, 2)
    worst = 0.0
    for i, m in enumerate(lib.members(stack)):
        smallest = np.linalg.eigvalsh(m.K.T @ m.K)[0]
        invertible = smallest > 1e-9
        rate = size(m.V) * (size(m.A) / smallest if invertible else 1.0)
        log_growth = np.log([size(S) / size(m.covariance) for S in run.covariance[i]])
        worst = max(worst, float(np.exp(np.max(log_growth - 2 * rate * ts))))
    return worst


_Q, _V = np.array([[0.0, 1.0], [0.0, 0.0]]), np.diag([0.0, 1.0])
_SIGMA = np.array([[1.0, 0.5], [0.5, 1.0]])
_T_STAR = (1 + 2 * _SIGMA[0, 0]) / (2 * _SIGMA[0, 1])


def _kappa_members(kappas: list[float]) -> Member:
    """Members with the data of erratum C11; each κ gives one, with K = diag(1, κ)."""
    mean, factor = np.zeros(2), np.linalg.cholesky(_SIGMA)
    K = [np.diag([1.0, kappa]) for kappa in kappas]
    return Member(*columns((mean, factor, _Q, k, _V, np.array(1.0)) for k in K))


@statement(
    "castin2025:prop-4.13",
    source="Proposition 4.13, §4.3",
    claim=r"In dimension one $s' = 4avs^2/(1 + 2k^2s)$, so $s \to \infty$ as $t \to "
    r"\infty$ if $av > 0$, at the rate $2av/k^2$, and $s \to 0$ if $av < 0$.",
    hypotheses=r"$k \neq 0$; $a = kq$; a bandwidth divides $a$ and $k^2$",
    control=(
        "the factor 2 is dropped before k²",
        {"curvature": 1.0},
        ("time…", "growth…"),
    ),
)
def scalars(case: Case, *, curvature: float = 2.0) -> Checks:
    r"""Compares the library's flow of four Gaussians on the line with a first integral.

    The flows run to time 8. The times are recovered from the integral $1/s_0 - 1/s +
    2k^2\log(s/s_0) = 4avt$. For av > 0, the growth rate over the last half must be the
    claimed limit. For av < 0, s(T) must be below a bound that follows from the integral
    and tends to zero.
    """
    stack = lib.line(case.rng("line"))
    run = lib.paths("l2", stack, lib.LINE_TIMES)
    s = run.covariance[:, :, 0, 0]
    eps = stack.epsilon[:, None]
    square = curvature * stack.K[:, :, 0] ** 2 / eps
    rate = 4 * (stack.A * stack.V)[:, :, 0] / eps
    times = (1 / s[:, :1] - 1 / s + square * np.log(s / s[:, :1])) / rate
    slack = float(np.max(1 / (1 + 2 * stack.K[:2, 0, 0] ** 2 / eps[:2, 0] * s[:2, -2])))
    decay = 1 + np.abs(rate[2:, 0]) * lib.LINE_TIMES[-1] * s[2:, 0]
    left = s[2:, -1] / s[2:, 0] * decay
    bracket = 1 + square[2:, 0] * s[2:, 0] * np.log(decay)
    yield lib.line_time(times, run)
    why = "the rate lies below its limit by 1/(1 + 2k²s), largest at mid-time"
    growth_slack = Slack(tolerance=slack, why=why)
    yield lib.late_growth("2av/k²", s[:2], rate[:2] / square[:2], **growth_slack)
    label = "decay: s(T)(1 + 4|av|Ts₀)/s₀ over 1 + 2k²s₀ log(1 + 4|av|Ts₀)"
    yield compare(label, np.max(left / bracket), "<=", 1)
