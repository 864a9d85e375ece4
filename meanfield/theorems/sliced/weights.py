"""Sliced transport: the attention, and the weights of its slices."""

from collections.abc import Callable

from scipy.special import softmax

from meanfield.theorems._arrays import Array, Binary, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library.attentions import bare, cloud, generic, velocity
from meanfield.theorems.library.slices import between, coupling, directions, sliced
from meanfield.theorems.reference import slices as ref

SAME = 1e-6  # costs that are nearer are of the same plan
Cost = Callable[[Array, Array, Array], Array]


def _in_space(q: Array, k: Array, theta: Array) -> Array:
    """Squared distances of queries and keys."""
    del theta
    return ref.powers(q, k, 2)


def _on_slice(q: Array, k: Array, theta: Array) -> Array:
    """Squared distances of their projections."""
    return ((q @ theta)[:, None] - (k @ theta)[None, :]) ** 2


def _by_pot(p: Parameters, at: Cloud, rows: Array) -> Array:
    """The plan of each slice, by POT."""
    q, k, w = at.x @ p.Q.T, at.x @ p.K.T, at.share
    return np.array([ref.lifted(q @ theta, k @ theta, w, w) for theta in rows])


@statement(
    "shahbazi2025:eq-9",
    source="Eq. (9)",
    claim=r"$G = \sum_l\sigma^\tau_lU_l$ with $\sigma^\tau_l \propto e^{-\tau D_l}$, "
    r"$D_l = \sum_{ij}|q_i - k_j|^2(U_l)_{ij}$: the mean of plans for $\tau = 0$, the "
    r"cheapest as $\tau \to \infty$.",
    hypotheses=r"equal base weights of slices, which the print leaves out (H3); in the "
    r"library $\tau/\epsilon$ for $\tau$",
    control=(
        "costs are taken along the slice in place of the space",
        {"cost": _on_slice},
        ("τ = 0.7",),
    ),
)
def weighted(case: Case, *, cost: Cost = _in_space) -> Checks:
    """The library's plan of twelve weighted tokens, four slices, against POT's plans.

    With τ = 0, 0.7 and so large that dearer slices have a share of e⁻⁶⁰ at most.
    """
    rng = case.rng("slices")
    p, at, rows = generic(rng, 2, 4), cloud(rng, 12, 4), directions(rng, 4)
    q, k, plans = at.x @ p.Q.T, at.x @ p.K.T, _by_pot(p, at, rows)
    D = np.array([np.sum(cost(q, k, v) * U) for v, U in zip(rows, plans, strict=True)])
    D = D / float(p.epsilon)
    above = D - D.min()  # zero too where two slices have the same plan
    tau = jnp.asarray(60 / np.min(above[above > SAME], initial=1.0))
    mix = lambda shares: np.tensordot(shares, plans, 1)
    actual = lambda tau: coupling(sliced(p, rows, tau), at)
    middle, cold = actual(jnp.asarray(0.7)), actual(tau)
    yield close("τ = 0", actual(0.0), mix(np.full(4, 1 / 4)))
    yield close("τ = 0.7", middle, mix(softmax(-0.7 * D)))
    yield close("τ → ∞", cold, plans[np.argmin(D)])


def _transposed(V: Array, G: Array) -> Array:
    r"""$NVG^\top$, the values being columns."""
    return G.shape[1] * V @ G.T


@statement(
    "shahbazi2025:eq-12",
    source="Eq. (12)",
    claim=r"The output is $NVG^\top$, values in the columns of $V$: each query takes "
    r"the mean of values, with weights that sum to one.",
    hypotheses=r"rows of $G$ are queries, columns keys",
    control=(
        r"$G$ for its transpose",
        {"rule": lambda V, G: 12 * V @ G},
        ("library's velocities", "keys relabelled with their values"),
    ),
)
def output(case: Case, *, rule: Binary = _transposed) -> Checks:
    """The product of values and POT's plans against the library's velocities.

    Twelve queries, and keys apart from them, values made of keys; weights that sum to
    one; and keys relabelled with their values, by the library's plan of them.
    """
    p, at, rows = _keys_apart(case)
    values, attention = p.V @ at.x.T, sliced(p, rows)
    G = _by_pot(p, at, rows).mean(axis=0)
    actual = np.asarray(velocity(attention, at, at))
    yield close("library's velocities", rule(values, G).T, actual)
    yield from _invariance(case, rule)


def _keys_apart(case: Case) -> tuple[Parameters, Cloud, Array]:
    """Tokens whose first half is a query, second a key; slices."""
    rng = case.rng("pairs")
    V = np.hstack([np.zeros((4, 2)), rng.normal(size=(4, 2))])
    at = bare(rng.normal(size=(12, 4)))
    return between(2)._replace(V=V), at, directions(rng, 4)


def _invariance(case: Case, rule: Binary) -> Checks:
    """What a mean of values does: weights, and keys relabelled."""
    p, at, rows = _keys_apart(case)
    order = np.roll(np.arange(12), 5)
    relabelling = bare(np.hstack([at.x[:, :2], at.x[order, 2:]]))
    G, H = (coupling(sliced(p, rows), tokens) for tokens in (at, relabelling))
    before, after = rule(p.V @ at.x.T, G), rule(p.V @ relabelling.x.T, H)
    yield close("weights of a query", rule(np.ones((1, 12)), G), np.ones((1, 12)))
    yield close("keys relabelled with their values", after, before)


@output.misprinted(
    "H2",
    printed=r"The output is $VG$.",
    corrected=r"It is $NVG^\top$.",
    counterexample="twelve queries and twelve keys apart from them, four slices",
)
def _(case: Case) -> Counterexample:
    rules = (np.matmul, _transposed)
    return Counterexample(*(_invariance(case, rule) for rule in rules))


@statement(
    "shahbazi2025:alg-1",
    source="Algorithm 1",
    claim=r"Queries and keys, sorted along each slice, $U_l = \frac1NA_l^\top B_l$, "
    r"their costs $D_l$, $\sigma = \mathrm{softmax}(-\tau D)$, $G = \sum\sigma_lU_l$ "
    r"and $NVG^\top$: cheap slices count more, and $G$ costs less as $\tau$ grows.",
    hypotheses="hard sorting, equal weights",
    control=(
        r"shares are $\mathrm{softmax}(+\tau D)$",
        {"sign": 1.0},
        ("library's velocities", "cost at τ = 0.7…"),
    ),
)
def algorithm(case: Case, *, sign: float = -1.0) -> Checks:
    r"""The algorithm line by line in NumPy, against the library's velocities.

    Twelve tokens, four slices, $\tau = 0.7$; the cost of $G$ over that at $\tau = 0$.
    """
    p, at, rows = _tokens(case)
    G = _by_lines(p, at, rows, sign * 0.7)
    actual = velocity(sliced(p, rows, jnp.asarray(0.7)), at, at)
    yield close("library's velocities", 12 * G @ at.x @ p.V.T, actual)
    yield from _cheaper(case, sign)


def _tokens(case: Case) -> tuple[Parameters, Cloud, Array]:
    rng = case.rng("tokens")
    p = generic(rng, 2, 4)._replace(epsilon=np.asarray(1.0))
    return p, bare(2 * rng.normal(size=(12, 4))), directions(rng, 4)


def _by_lines(p: Parameters, at: Cloud, rows: Array, rate: float) -> Array:
    """$G$, with shares softmax of `rate` times costs."""
    q, k = at.x @ p.Q.T, at.x @ p.K.T
    sides = [(ref.permutation(q @ v), ref.permutation(k @ v)) for v in rows]
    plans = np.array([A.T @ B / len(q) for A, B in sides])
    costs = np.sum(ref.powers(q, k, 2) * plans, axis=(1, 2))
    return np.tensordot(softmax(rate * costs), plans, 1)


def _cheaper(case: Case, sign: float) -> Checks:
    """Costs of G as τ grows from zero."""
    p, at, rows = _tokens(case)
    table = ref.powers(at.x @ p.Q.T, at.x @ p.K.T, 2)
    cost = lambda tau: np.sum(table * _by_lines(p, at, rows, sign * tau))
    slack = Slack(tolerance=1e-12, why="rounding of sums of 144 products")
    for tau, before in ((0.7, 0), (1.4, 0.7)):
        label = f"cost at τ = {tau:g} over τ = {before:g}"
        yield bounded(label, cost(tau) / cost(before), "<=", 1, **slack)


@algorithm.misprinted(
    "H3",
    printed=r"Line 7: $\sigma = \mathrm{softmax}(D; \tau)$.",
    corrected=r"$\sigma = \mathrm{softmax}(-\tau D)$.",
    counterexample="twelve tokens, four slices, τ = 0.7: dear slices count more",
)
def _(case: Case) -> Counterexample:
    dearer, _ = _cheaper(case, 1.0)
    return Counterexample((dearer,), _cheaper(case, -1.0))


Velocities = Callable[[Parameters, Cloud, Array], Array]


def _by_library(p: Parameters, at: Cloud, rows: Array) -> Array:
    return np.asarray(velocity(sliced(p, rows), at, at))


def _by_order(p: Parameters, at: Cloud, rows: Array) -> Array:
    """By ranks, and where projections coincide by the order of tokens."""
    G = _by_lines(p, at, rows, 0.0)
    return len(at.x) * G @ at.x @ p.V.T


@statement(
    "shahbazi2025:permutation-equivariance",
    source="Symmetry of the attention",
    claim="Relabelled tokens have their velocities relabelled.",
    hypotheses="where projections coincide, by the lifted plan of eq. (5)",
    control=(
        "coinciding projections are sorted by the order of tokens",
        {"rule": _by_order},
        ("ties",),
    ),
)
def equivariance(case: Case, *, rule: Velocities = _by_library) -> Checks:
    """The library's velocities of twelve tokens, in three other orders.

    Weighted normal tokens; and normal queries with keys of integer coordinates, of
    which several coincide along the axes.
    """
    rng = case.rng("tokens")
    p, rows = generic(rng, 2, 4), directions(rng, 4)
    axes = between(2)._replace(V=rng.normal(size=(4, 4)))
    keys = rng.integers(0, 2, size=(12, 2))
    ties = bare(np.hstack([rng.normal(size=(12, 2)), keys]))
    inputs = {
        "distinct": (p, cloud(rng, 12, 4), rows),
        "ties": (axes, ties, np.repeat(np.eye(2), 2, axis=0)),
    }
    for label, (q, at, slices) in inputs.items():
        before = rule(q, at, slices)
        orders = [rng.permutation(12) for _ in range(3)]
        after = [rule(q, Cloud(at.x[pi], at.w[pi]), slices) for pi in orders]
        yield close(label, np.array(after), before[np.array(orders)])
