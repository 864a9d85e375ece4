"""Sliced transport: the algorithm of the attention, with hard and soft sorting."""

from functools import partial

from meanfield.theorems._arrays import Array, Binary, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, gap
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import slices as lib
from meanfield.theorems.reference import slices as ref
from meanfield.theorems.reference.energies import gradient

TAU = 0.7
TRAINED_TAU = 0.1  # published for trained networks, as is the second temperature
TEMPERATURES = (0.5, 1e-3)
SLOPE = Slack(
    tolerance=1e-10,
    why="projections below 20, rounded at 4e-15, over t = 1e-3, in exponents and in "
    "their derivatives: 1e-11, with a margin of ten",
)


@statement(
    "shahbazi2025:alg-1",
    source="Algorithm 1",
    claim=r"Queries and keys, sorted along each slice, $U_l = \frac1NA_l^\top B_l$, "
    r"their costs $D_l$, $\sigma = \mathrm{softmax}(-\tau D)$, $G = \sum\sigma_lU_l$ "
    r"and $NVG^\top$: cheap slices count more, and $G$ costs less as $\tau$ grows.",
    hypotheses=r"equal weights; hard sorting, or soft sorting with $p = 1$; the "
    r"library has $\tau/\epsilon$ for $\tau$, and `esp-soft` divides the rows of $U_l$ "
    r"by their sums",
    control=(
        r"shares are $\mathrm{softmax}(+\tau D)$",
        {"sign": 1.0},
        ("library's velocities", "esp-soft…", "gradient…", "cost at τ = 0.7…"),
    ),
)
def algorithm(case: Case, *, sign: float = -1.0) -> Checks:
    r"""Compares the library's velocities with Algorithm 1, written out in NumPy.

    There are twelve tokens and four slices. With hard sorting $\tau = 0.7$; the cost of
    $G$ must decrease as $\tau$ grows. With soft sorting, parameters are those of
    networks: $p = 1$, $\tau = 0.1$, $\epsilon = \sqrt k$ and slices of any length, at
    $t = 1/2$ and $10^{-3}$. Complex steps give the gradient in the slices.
    """
    p, cloud, rows = _tokens(case)
    attention = lib.sliced_attention(p, rows, jnp.asarray(TAU))
    reference = _output(p, cloud, rows, sign * TAU, ref.hard_plan)
    actual = att.velocity(attention, cloud, cloud)
    yield close("library's velocities", actual, reference)
    yield from _cost_checks(case, sign)
    for t in TEMPERATURES:
        yield from _soft_checks(case, t, sign)


def _tokens(case: Case) -> tuple[Parameters, Cloud, Array]:
    rng = case.rng("tokens")
    p = att.random_parameters(rng, 2, 4)._replace(epsilon=np.asarray(1.0))
    return p, att.uniform_cloud(2 * rng.normal(size=(12, 4))), lib.directions(rng, 4)


def _output(
    p: Parameters, cloud: Cloud, rows: Array, rate: float, slice_plan: Binary
) -> Array:
    """Rows of the output, from a plan whose slices have shares softmax(`rate` · D)."""
    q, k = cloud.x @ p.Q.T, cloud.x @ p.K.T
    G = ref.sliced_plan(q, k, rows, slice_plan=slice_plan, rate=rate)
    return len(q) * G @ cloud.x @ p.V.T


def _soft_checks(case: Case, t: float, sign: float) -> Checks:
    """Checks velocities of the soft variants, and the gradient in trained slices."""
    p, cloud, units = _tokens(case)
    rng, p = case.rng("trained slices"), p._replace(epsilon=np.asarray(2**0.5))
    rows = units * rng.uniform(0.3, 3, size=(4, 1))
    weights = rng.normal(size=cloud.x.shape)
    options = {"temperature": jnp.asarray(t), "power": 1}
    attention, printed_attention = (
        p.attention(name, slices=rows, tau=jnp.asarray(TRAINED_TAU), **options)
        for name in ("esp-soft", "esp-soft-published")
    )
    rate = sign * TRAINED_TAU / float(p.epsilon)
    row_plan = partial(ref.divided_soft_plan, t=t)
    output = lambda rows: _output(p, cloud, rows, rate, row_plan)
    slope = gradient(lambda rows: weights.ravel() @ output(rows).ravel(), rows)
    actual, actual_slope = lib.soft_velocities(
        attention, jnp.asarray(rows), cloud, jnp.asarray(weights)
    )
    reference = _output(p, cloud, rows, rate, partial(ref.soft_plan, t=t))
    published_velocity = att.velocity(printed_attention, cloud, cloud)
    yield close(f"esp-soft, t = {t:g}", actual, output(rows))
    yield close(f"esp-soft-published, t = {t:g}", published_velocity, reference)
    yield gap(f"gradient in slices, t = {t:g}", actual_slope, slope, **SLOPE)


def _cost_checks(case: Case, sign: float) -> Checks:
    """Checks that the cost of the plan G decreases as τ grows."""
    p, cloud, rows = _tokens(case)
    q, k = cloud.x @ p.Q.T, cloud.x @ p.K.T
    plan = partial(ref.sliced_plan, q, k, rows, slice_plan=ref.hard_plan)
    cost = lambda tau: np.sum(ref.powers(q, k, 2) * plan(rate=sign * tau))
    slack = Slack(tolerance=1e-12, why="rounding of sums of 144 products")
    for tau, smaller_tau in ((TAU, 0), (2 * TAU, TAU)):
        label = f"cost at τ = {tau:g} over τ = {smaller_tau:g}"
        yield compare(label, cost(tau) / cost(smaller_tau), "<=", 1, **slack)


@algorithm.register_misprint(
    "H3",
    claim=r"Line 7: $\sigma = \mathrm{softmax}(D; \tau)$.",
    correction=r"$\sigma = \mathrm{softmax}(-\tau D)$.",
    counterexample="twelve tokens, four slices, τ = 0.7: costly slices count more",
)
def _(case: Case) -> Counterexample:
    dearer, _ = _cost_checks(case, 1.0)
    return Counterexample((dearer,), _cost_checks(case, -1.0))
