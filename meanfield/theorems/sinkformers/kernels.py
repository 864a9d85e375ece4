"""Sinkformers: kernels and potentials."""

from collections.abc import Callable

from scipy.special import logsumexp

from meanfield.attention import scalings
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, JaxArray, eqx, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, gap
from meanfield.theorems._vocabulary import Cloud
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import after, potentials

from .marginals import seven_tokens

COUNTS = (1, 2, 3, 4)


def _by_logs(C: Array, target: float, count: int) -> Array:
    """Updates of f and g in turn, in the log domain, to sums of `target`."""
    one = np.ones(len(C))
    f, g = after(potentials(C, one, one), count)
    return target * np.exp(C + f[:, None] + g[None, :])


Updates = Callable[[Array, float, int], Array]


def _at_once(C: Array, target: float, count: int) -> Array:
    """Both potentials from the old ones, in every step."""
    f, g = np.zeros(len(C)), np.zeros(len(C))
    for _ in range(count):
        f, g = (
            np.log(target) - logsumexp(C + g[None, :], axis=1),
            np.log(target) - logsumexp(C + f[:, None], axis=0),
        )
    return np.exp(C + f[:, None] + g[None, :])


@statement(
    "sander2022:app-B",
    source="Appendix B",
    claim=r"In the log domain $f \leftarrow \log 1 - \mathrm{LSE}_j(C_{ij} + g_j)$ and "
    r"$g \leftarrow \log 1 - \mathrm{LSE}_i(C_{ij} + f_i)$ in turn give "
    r"$K^\ell = e^{C + f \oplus g}$, whose rows, or columns, sum to one.",
    control=(
        "both potentials are updated at once, from the old ones",
        {"updates": _at_once},
        ("K after…",),
    ),
)
def log_domain(case: Case, *, updates: Updates = _by_logs) -> Checks:
    """The library's matrices after one to four updates, and its limiting potentials.

    Against NumPy's updates; the potentials with unequal weights, at tokens and
    elsewhere, for a biased score.
    """
    yield from _log_domain(case, updates, 1.0)
    # $f \oplus g$ between tokens, f and g at probes; biases and unequal weights.
    rng = case.rng("potentials")
    p, at = att.generic(rng, 2, 3), att.cloud(rng, 7, 3)
    probes, w = att.bare(rng.normal(size=(7, 3))), at.share
    q, k = rng.normal(size=(2, 2))
    score = Dot(p.Q, p.K, float(p.epsilon), query_bias=q, key_bias=k)
    s = lambda x, y: (x @ p.Q.T + q) @ (y @ p.K.T + k).T / p.epsilon
    solved = sk.converged(sk.scores_of(p, at), w)
    slack = Slack(tolerance=20 * solved.error, why=f"{solved.why}; potentials below 20")
    f, f_probes, g, g_probes = map(np.asarray, _potentials(score, at, probes))
    exact = np.log(solved.kappa) - s(at.x, at.x)
    seeing = np.exp(s(probes.x, at.x) + g[None, :]) @ w
    seen = w @ np.exp(s(at.x, probes.x) + f[:, None])
    yield gap("f ⊕ g", f[:, None] + g[None, :], exact, **slack)
    yield gap("f elsewhere", f_probes, -np.log(seeing), **slack)
    yield gap("g elsewhere", g_probes, -np.log(seen), **slack)


@log_domain.misprinted(
    "S6",
    printed=r"The updates have $\log(1_n/n)$.",
    corrected=r"The updates have $\log 1$; or the result is multiplied by $n$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    return Counterexample(*(_log_domain(case, _by_logs, one) for one in (1 / 7, 1.0)))


def _log_domain(case: Case, updates: Updates, target: float) -> Checks:
    p, at = seven_tokens(case, "log domain")
    C, found = sk.scores_of(p, at), att.half_steps(p, at, at, COUNTS)
    for count, (matrix, _) in zip(COUNTS, found, strict=True):
        yield close(f"K after {count} updates", matrix, updates(C, target, count))


@eqx.filter_jit
def _potentials(score: Dot, at: Cloud, probes: Cloud) -> tuple[JaxArray, ...]:
    """The library's potentials at the tokens and at probes."""
    found = scalings(score, att.points(at))
    places = (att.tokens(at), att.tokens(probes))
    return *(found.rows(x) for x in places), *(found.columns(x) for x in places)


@statement(
    "sander2022:k-discrete",
    source="§4",
    claim=r"For $\mu = \frac1n\sum_i\delta_{x_i}$: $k^0(x_i, x_j) = K^0_{ij}$ and "
    r"$k^\ell(x_i, x_j) = nK^\ell_{ij}$ for $\ell \ge 1$, so that $\int k^\ell(x_i, "
    r"x)x\,d\mu(x)$ is $\sum_j K^\ell_{ij}x_j$, and $\frac1n$ of that for $\ell = 0$.",
    control=(
        r"the factor $n$ stands at $\ell = 0$ and not at the others",
        {"zeroth": 1.0, "later": 1 / 7},
    ),
)
def discrete(case: Case, *, zeroth: float = 1 / 7, later: float = 1.0) -> Checks:
    """The library's kernels and velocities for 0 to 4 half-steps, against NumPy's."""
    p, at = seven_tokens(case, "kernels")
    C, p = sk.scores_of(p, at), p._replace(V=p.V * p.epsilon)  # the library divides
    exponential = p.attention("exp")
    K = np.exp(C)
    kernel = 7 * np.asarray(att.matrices(exponential, at)[0])
    velocity = att.velocity(exponential, at, at)
    yield close("k⁰", kernel, 7 * zeroth * K)
    yield close("velocity, ℓ = 0", velocity, zeroth * K @ at.x @ p.V.T)
    found = att.half_steps(p, at, at, COUNTS)
    for count, (matrix, moved) in zip(COUNTS, found, strict=True):
        K, V = _by_logs(C, 1.0, count), p.V / p.epsilon
        kernel = 7 * np.asarray(matrix)
        yield close(f"k, ℓ = {count}", kernel, 7 * later * K)
        yield close(f"velocity, ℓ = {count}", moved, later * K @ at.x @ V.T)


@discrete.misprinted(
    "S7",
    printed=r"$k^\ell(x_i, x_j) = K^\ell_{ij}$ for all $\ell$.",
    corrected=r"$k^\ell(x_i, x_j) = nK^\ell_{ij}$ for $\ell \ge 1$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    return Counterexample(discrete(case, later=1 / 7)[2:], discrete(case))
