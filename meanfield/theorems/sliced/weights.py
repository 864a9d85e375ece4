"""Sliced transport: the attention and the weights of its slices."""

from collections.abc import Callable

from scipy.special import softmax

from meanfield.theorems._arrays import Array, Binary, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import close
from meanfield.theorems._vocabulary import Cloud, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.library import slices as lib
from meanfield.theorems.reference import slices as ref

COST_TOLERANCE = 1e-6  # if costs differ by less, plans are taken to be equal
Cost = Callable[[Array, Array, Array], Array]


def _space_costs(q: Array, k: Array, theta: Array) -> Array:
    """Squared distances between queries and keys."""
    del theta
    return ref.powers(q, k, 2)


def _slice_costs(q: Array, k: Array, theta: Array) -> Array:
    """Squared distances between projections of queries and keys."""
    return ((q @ theta)[:, None] - (k @ theta)[None, :]) ** 2


def _pot_plans(p: Parameters, cloud: Cloud, rows: Array) -> Array:
    """Plan of each slice, computed by POT."""
    q, k, w = cloud.x @ p.Q.T, cloud.x @ p.K.T, cloud.share
    return np.array([ref.lifted_plan(q @ theta, k @ theta, w, w) for theta in rows])


@statement(
    "shahbazi2025:eq-9",
    source="Eq. (9)",
    claim=r"$G = \sum_l\sigma^\tau_lU_l$ with $\sigma^\tau_l \propto e^{-\tau D_l}$, "
    r"$D_l = \sum_{ij}|q_i - k_j|^2(U_l)_{ij}$: the mean of plans for $\tau = 0$, the "
    r"cheapest as $\tau \to \infty$.",
    hypotheses=r"equal base weights of slices, which the paper leaves out (H3); the "
    r"library has $\tau/\epsilon$ for $\tau$",
    control=(
        "costs are distances along the slice instead of in space",
        {"cost": _slice_costs},
        ("τ = 0.7",),
    ),
)
def slice_weights(case: Case, *, cost: Cost = _space_costs) -> Checks:
    """Compares the library's plan of four slices with weighted means of POT's plans.

    There are twelve weighted tokens. The values of τ are 0, 0.7, and one so large that
    every slice of higher cost has a share of at most e⁻⁶⁰.
    """
    rng = case.rng("slices")
    p = att.random_parameters(rng, 2, 4)
    cloud = att.random_cloud(rng, 12, 4)
    rows = lib.directions(rng, 4)
    q, k, plans = cloud.x @ p.Q.T, cloud.x @ p.K.T, _pot_plans(p, cloud, rows)
    D = np.array([np.sum(cost(q, k, v) * U) for v, U in zip(rows, plans, strict=True)])
    D = D / float(p.epsilon)
    # Slices can share a plan and hence a cost, so several excess costs can be about 0.
    excess_costs = D - D.min()
    least_cost = np.min(excess_costs[excess_costs > COST_TOLERANCE], initial=1.0)
    mix = lambda shares: np.tensordot(shares, plans, 1)
    actual = lambda tau: lib.coupling(lib.sliced_attention(p, rows, tau), cloud)
    middle, cold = actual(jnp.asarray(0.7)), actual(jnp.asarray(60 / least_cost))
    yield close("τ = 0", actual(0.0), mix(np.full(4, 1 / 4)))
    yield close("τ = 0.7", middle, mix(softmax(-0.7 * D)))
    yield close("τ → ∞", cold, plans[np.argmin(D)])


def _transposed_output(V: Array, G: Array) -> Array:
    r"""Output $NVG^\top$, for values in the columns of $V$."""
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
def output(case: Case, *, rule: Binary = _transposed_output) -> Checks:
    """Compares the product of values and POT's plans with the library's velocities.

    There are twelve separate queries and keys, and values depend on the keys alone.
    Weights must sum to one. If keys are relabelled together with their values, the
    output must not change.
    """
    p, cloud, rows = _separate_keys(case)
    values, attention = p.V @ cloud.x.T, lib.sliced_attention(p, rows)
    G = _pot_plans(p, cloud, rows).mean(axis=0)
    actual = np.asarray(att.velocity(attention, cloud, cloud))
    yield close("library's velocities", rule(values, G).T, actual)
    yield from _invariance(case, rule)


def _separate_keys(case: Case) -> tuple[Parameters, Cloud, Array]:
    """Parameters, slices, and tokens whose two halves are a query and a key."""
    rng = case.rng("pairs")
    V = np.hstack([np.zeros((4, 2)), rng.normal(size=(4, 2))])
    cloud = att.uniform_cloud(rng.normal(size=(12, 4)))
    return lib.pair_parameters(2)._replace(V=V), cloud, lib.directions(rng, 4)


def _invariance(case: Case, rule: Binary) -> Checks:
    """Checks that weights sum to one, and that relabelling keys changes no output."""
    p, cloud, rows = _separate_keys(case)
    order = np.roll(np.arange(12), 5)
    relabelling = att.uniform_cloud(np.hstack([cloud.x[:, :2], cloud.x[order, 2:]]))
    attention = lib.sliced_attention(p, rows)
    G, H = lib.coupling(attention, cloud), lib.coupling(attention, relabelling)
    base_output = rule(p.V @ cloud.x.T, G)
    relabelled_output = rule(p.V @ relabelling.x.T, H)
    yield close("weights of a query", rule(np.ones((1, 12)), G), np.ones((1, 12)))
    yield close("keys relabelled with their values", relabelled_output, base_output)


@output.register_misprint(
    "H2",
    claim=r"The output is $VG$.",
    correction=r"It is $NVG^\top$.",
    counterexample="twelve queries and twelve keys apart from them, four slices",
)
def _(case: Case) -> Counterexample:
    rules = (np.matmul, _transposed_output)
    return Counterexample(*(_invariance(case, rule) for rule in rules))


Velocities = Callable[[Parameters, Cloud, Array], Array]


def _library_velocities(p: Parameters, cloud: Cloud, rows: Array) -> Array:
    return np.asarray(att.velocity(lib.sliced_attention(p, rows), cloud, cloud))


def _order_velocities(p: Parameters, cloud: Cloud, rows: Array) -> Array:
    """Velocities by ranks; tokens with equal projections are ranked by their index."""
    q, k = cloud.x @ p.Q.T, cloud.x @ p.K.T
    G = ref.sliced_plan(q, k, rows, slice_plan=ref.hard_plan, rate=0.0)
    return len(cloud.x) * G @ cloud.x @ p.V.T


@statement(
    "shahbazi2025:permutation-equivariance",
    source="Symmetry of the attention",
    claim="Relabelled tokens have their velocities relabelled.",
    hypotheses="where projections coincide, by the lifted plan of eq. (5)",
    control=(
        "coinciding projections are sorted by the order of tokens",
        {"rule": _order_velocities},
        ("ties",),
    ),
)
def equivariance(case: Case, *, rule: Velocities = _library_velocities) -> Checks:
    """Compares the library's velocities of the same twelve tokens in four orders.

    One cloud has weighted normal tokens. Another has normal queries, and keys with
    integer coordinates, several of which coincide along the axes.
    """
    rng = case.rng("tokens")
    p, rows = att.random_parameters(rng, 2, 4), lib.directions(rng, 4)
    axes = lib.pair_parameters(2)._replace(V=rng.normal(size=(4, 4)))
    keys = rng.integers(0, 2, size=(12, 2))
    ties = att.uniform_cloud(np.hstack([rng.normal(size=(12, 2)), keys]))
    inputs = {
        "distinct": (p, att.random_cloud(rng, 12, 4), rows),
        "ties": (axes, ties, np.repeat(np.eye(2), 2, axis=0)),
    }
    for label, (q, cloud, slices) in inputs.items():
        base_velocities = rule(q, cloud, slices)
        orders = [rng.permutation(12) for _ in range(3)]
        clouds = [Cloud(cloud.x[pi], cloud.w[pi]) for pi in orders]
        permuted_velocities = [rule(q, image, slices) for image in clouds]
        yield close(label, permuted_velocities, base_velocities[np.array(orders)])
