"""Sinkformers: kernels and potentials."""

from collections.abc import Callable

from scipy.special import logsumexp

from meanfield.attention import scalings
from meanfield.scores import Dot
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import close, gap
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import sinkhorn as sk
from meanfield.theorems.reference.alternation import nth_state, potentials

from .marginals import seven_tokens

COUNTS = (1, 2, 3, 4)


def _alternating_updates(C: Array, target: float, count: int) -> Array:
    """Matrix after `count` alternating log-domain updates of f and g.

    Its rows sum to `target` if `count` is odd, its columns if `count` is even.
    """
    ones = np.ones(len(C))
    f, g = nth_state(potentials(C, ones, ones), count)
    return target * np.exp(C + f[:, None] + g[None, :])


Updates = Callable[[Array, float, int], Array]


def _simultaneous_updates(C: Array, target: float, count: int) -> Array:
    """Matrix after updates of both potentials at once, from their old values."""
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
        {"updates": _simultaneous_updates},
        ("K after…",),
    ),
)
def log_domain(case: Case, *, updates: Updates = _alternating_updates) -> Checks:
    """Compares the library's matrices after one to four updates with NumPy.

    The library's converged potentials, for a biased score and unequal weights, are
    compared with potentials from NumPy at the tokens and at other points.
    """
    yield from _log_domain(case, updates, 1.0)
    # The library's converged potentials are compared at tokens and probes, with biases
    # and unequal weights.
    rng = case.rng("potentials")
    p, cloud = att.random_problem(rng, 7)
    probes, w = att.uniform_cloud(rng.normal(size=(7, 3))), cloud.share
    q, k = rng.normal(size=(2, 2))
    score = Dot(p.Q, p.K, float(p.epsilon), query_bias=q, key_bias=k)
    s = lambda x, y: (x @ p.Q.T + q) @ (y @ p.K.T + k).T / p.epsilon
    solution = sk.solve_density(sk.scores_of(p, cloud), w)
    slack = solution.potential_slack
    library, places = scalings(score, att.points(cloud)), (cloud, probes)
    f, f_probes = (np.asarray(library.rows(att.tokens(x))) for x in places)
    g, g_probes = (np.asarray(library.columns(att.tokens(x))) for x in places)
    exact = np.log(solution.kappa) - s(cloud.x, cloud.x)
    row_integrals = np.exp(s(probes.x, cloud.x) + g[None, :]) @ w
    column_integrals = w @ np.exp(s(cloud.x, probes.x) + f[:, None])
    yield gap("f ⊕ g", f[:, None] + g[None, :], exact, **slack)
    yield gap("f elsewhere", f_probes, -np.log(row_integrals), **slack)
    yield gap("g elsewhere", g_probes, -np.log(column_integrals), **slack)


@log_domain.register_misprint(
    "S6",
    claim=r"The updates have $\log(1_n/n)$.",
    correction=r"The updates have $\log 1$; or the result is multiplied by $n$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    return Counterexample(
        *(_log_domain(case, _alternating_updates, target) for target in (1 / 7, 1.0))
    )


def _log_domain(case: Case, updates: Updates, target: float) -> Checks:
    p, cloud = seven_tokens(case, "log domain")
    C, half_steps = sk.scores_of(p, cloud), att.half_steps(p, cloud, cloud, COUNTS)
    for count, (matrix, _) in zip(COUNTS, half_steps, strict=True):
        yield close(f"K after {count} updates", matrix, updates(C, target, count))


@statement(
    "sander2022:k-discrete",
    source="§4",
    claim=r"For $\mu = \frac1n\sum_i\delta_{x_i}$: $k^0(x_i, x_j) = K^0_{ij}$ and "
    r"$k^\ell(x_i, x_j) = nK^\ell_{ij}$ for $\ell \ge 1$, so that $\int k^\ell(x_i, "
    r"x)x\,d\mu(x)$ is $\sum_j K^\ell_{ij}x_j$, and $\frac1n$ of that for $\ell = 0$.",
    control=(
        r"the factor $n$ is at $\ell = 0$ and not at the others",
        {"zeroth": 1.0, "later": 1 / 7},
    ),
)
def discrete_kernels(
    case: Case, *, zeroth: float = 1 / 7, later: float = 1.0
) -> Checks:
    """Compares the library's kernels and velocities, for ℓ from 0 to 4, with NumPy.

    The number of half-steps is ℓ; for ℓ = 0 the kernel is $e^s$.
    """
    p, cloud = seven_tokens(case, "kernels")
    # The library divides the value of Sinkhorn attention by ε.
    C, p = sk.scores_of(p, cloud), p._replace(V=p.V * p.epsilon)
    exponential = p.attention("exp")
    K = np.exp(C)
    kernel = 7 * np.asarray(att.matrices(exponential, cloud)[0])
    velocity = att.velocity(exponential, cloud, cloud)
    yield close("k⁰", kernel, 7 * zeroth * K)
    yield close("velocity, ℓ = 0", velocity, zeroth * K @ cloud.x @ p.V.T)
    half_steps = att.half_steps(p, cloud, cloud, COUNTS)
    for count, (matrix, velocities) in zip(COUNTS, half_steps, strict=True):
        K, V = _alternating_updates(C, 1.0, count), p.V / p.epsilon
        kernel = 7 * np.asarray(matrix)
        yield close(f"k, ℓ = {count}", kernel, 7 * later * K)
        yield close(f"velocity, ℓ = {count}", velocities, later * K @ cloud.x @ V.T)


@discrete_kernels.register_misprint(
    "S7",
    claim=r"$k^\ell(x_i, x_j) = K^\ell_{ij}$ for all $\ell$.",
    correction=r"$k^\ell(x_i, x_j) = nK^\ell_{ij}$ for $\ell \ge 1$.",
    counterexample="seven random tokens, k = 2, d = 3",
)
def _(case: Case) -> Counterexample:
    false = discrete_kernels(case, later=1 / 7)[2:]
    return Counterexample(false, discrete_kernels(case))
