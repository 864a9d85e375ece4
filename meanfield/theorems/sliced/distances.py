"""Sliced transport: the cost of the expected plan as a distance."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, Binary, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, close, compare, gap, order
from meanfield.theorems.library import slices as lib
from meanfield.theorems.library.attentions import uniform_cloud
from meanfield.theorems.reference import slices as ref
from meanfield.theorems.reference.measures import wasserstein

ROUNDING_SLACK = Slack(
    tolerance=1e-9, why="roots of sums of a dozen products, of size one"
)


def _distances(x: Array, y: Array, plans: Array, p: int) -> Array:
    """Distance $D_p$ between the two clouds of each pair."""
    return np.sum(ref.powers(x, y, p) * plans, axis=(1, 2)) ** (1 / p)


def _half_circle(count: int) -> Array:
    """Unit vectors in the middle of equal arcs of a half circle."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@statement(
    "shahbazi2025:eq-10",
    source="Eq. (10)",
    claim=r"The cost of a slice is $D_p^p = \sum_{ij}|x_i - y_j|^pU_{ij} = "
    r"\frac1N\sum_i|x_i - y_{\pi(i)}|^p$, with $\pi(i)$ of the same rank as $i$.",
    hypotheses=r"hard sorting, equal weights, projections of either side distinct",
    control=(
        r"queries and keys are paired by index, $\pi(i) = i$",
        {"partner": lambda a, _: np.arange(len(a))},
    ),
)
def slice_costs(case: Case, *, partner: Binary = ref.partner) -> Checks:
    r"""Compares costs of the library's plans of four slices with sums over equal ranks.

    The powers are p = 1, 2, 3. The costs that the library itself uses (p = 2) are
    recovered from its weights $\sigma_l \propto e^{-\tau D_l}$ in the plan of all four
    slices.
    """
    rng = case.rng("slices")
    cloud = uniform_cloud(rng.normal(size=(12, 4)))
    rows, tau = lib.directions(rng, 4), 0.7
    x, y = cloud.x[:, :2], cloud.x[:, 2:]
    orders = [partner(x @ theta, y @ theta) for theta in rows]
    plans = lib.couplings(rows, cloud)
    for p in (1, 2, 3):
        table = ref.powers(x, y, p)
        costs = np.array([table[np.arange(12), pi].mean() for pi in orders])
        yield close(f"p = {p}", np.sum(table * plans, axis=(1, 2)), costs)
    squares = np.array([np.mean(np.sum((x - y[pi]) ** 2, axis=1)) for pi in orders])
    joint_plan = lib.pair_coupling(rows, cloud, tau)
    shares = np.linalg.lstsq(plans.reshape(4, -1).T, joint_plan.ravel())[0]
    logs, expected = np.log(shares / shares[0]), -tau * (squares - squares[0])
    yield gap("the library's own", logs, expected, **ROUNDING_SLACK)


def _mean_plan(x: Array, y: Array) -> Array:
    """The library's mean plan over eight slices, for each pair of clouds."""
    return lib.pair_plans(x, y, _half_circle(8), jnp.zeros(()))


def _nearest_plan(x: Array, y: Array) -> Array:
    """Plans in which each query sends all of its mass to the nearest key."""
    n = x.shape[1]
    return np.eye(n)[np.argmin(ref.powers(x, y, 2), axis=2)] / n


@statement(
    "shahbazi2025:Dp-lower",
    source="The distance D_p",
    claim=r"$D_p(\mu, \nu) = (\sum_{ij}|x_i - y_j|^p\bar\gamma_{ij})^{1/p} \geq "
    r"W_p(\mu, \nu)$, with equality for translates.",
    control=("each query takes its nearest key, no coupling", {"plan": _nearest_plan}),
)
def lower_bound(case: Case, *, plan: Binary = _mean_plan) -> Checks:
    """Compares $D_p$ of the library's plans of eight slices with $W_p$.

    There are 300 pairs of clouds of three tokens in the plane, and p = 1, 2, 3. $W_p$
    is the minimum over permutations. For 300 translates, $D_p$ must be the length of
    the shift.
    """
    rng = case.rng("pairs")
    x, y = rng.normal(size=(2, 600, 3, 2))
    v = rng.normal(size=(300, 1, 2))
    y[300:] = x[300:, ::-1] + v
    plans, lengths = plan(x, y), np.linalg.norm(v[:, 0], axis=1)
    for p in (1, 2, 3):
        W = ref.cheapest_permutation(ref.powers(x, y, p)) ** (1 / p)
        D = _distances(x, y, plans, p)
        ratio = np.max(W[:300] / D[:300])
        yield compare(f"largest W/D, p = {p}", ratio, "<=", 1, **ROUNDING_SLACK)
        yield gap(f"D of translates, p = {p}", D[300:], lengths, **ROUNDING_SLACK)


AXES = np.repeat(np.eye(2), 4, axis=0)
SEPARATION = 0.01  # distance along an axis between points that exchange ranks


@statement(
    "shahbazi2025:Dp-metric",
    source="The distance D_p",
    claim=r"$D_p$ is a metric: zero between equal measures only, symmetric, and "
    r"$D_p(\mu, \rho) \leq D_p(\mu, \nu) + D_p(\nu, \rho)$.",
    hypotheses=r"$\tau = 0$; projections are distinct for $\sigma$-almost every "
    r"direction, for example if $\sigma$ has a density",
    remark="On each slice $D_p$ is the p-norm of differences of sorted tokens; for all "
    "slices together, Minkowski's inequality gives the triangle inequality.",
    control=(r"$\tau = 10$", {"tau": 10.0}, ("two exchanges",)),
)
def metric(case: Case, *, tau: float = 0.0) -> Checks:
    """Tests the triangle inequality on the library's plans of eight slices.

    There are 200 triples of clouds of three tokens. Random moves of the middle cloud
    are kept if they bring the triangle nearer to equality. In one more triple, ranks
    are exchanged on one axis between the first two clouds, and on the other axis
    between the last two. Symmetry and definiteness are checked too.
    """
    rng = case.rng("triples")
    x, y, z = rng.normal(size=(3, 200, 3, 2))
    rows, moves = lib.directions(rng, 8), case.pick(12, 60)
    ratio = _excess((x, y, z), rows, tau, 2)
    for _ in range(moves):
        proposal = y + 0.3 * rng.normal(size=y.shape)
        trial = _excess((x, proposal, z), rows, tau, 2)
        y = np.where((trial > ratio)[:, None, None], proposal, y)
        ratio = np.maximum(ratio, trial)
    top = [np.max(_excess((x, y, z), rows, tau, p)) for p in (1, 2)]
    forward, backward, self_distance = _sides((x, y, x), rows, tau, 2)
    yield compare("triangles, p = 1", top[0], "<=", 1, **ROUNDING_SLACK)
    yield compare("triangles, p = 2", top[1], "<=", 1, **ROUNDING_SLACK)
    yield compare("two exchanges", _exchanges(tau), "<=", 1, **ROUNDING_SLACK)
    yield gap("D(μ, ν) and D(ν, μ)", forward, backward, **ROUNDING_SLACK)
    yield gap("D(μ, μ)", self_distance, np.zeros(200), **ROUNDING_SLACK)
    yield compare("least D(μ, ν)", np.min(forward), ">=", 1e-3)


Triple = tuple[Array, Array, Array]


def _sides(triple: Triple, rows: Array, tau: float, p: int) -> Array:
    """Sides of triangles: $D$ between clouds 1 and 2, between 2 and 3, and 1 and 3."""
    x, y, z = triple
    starts, ends = np.concatenate([x, y, x]), np.concatenate([y, z, z])
    plans = lib.pair_plans(starts, ends, rows, jnp.asarray(tau))
    return _distances(starts, ends, plans, p).reshape(3, -1)


def _excess(triple: Triple, rows: Array, tau: float, p: int) -> Array:
    """Ratio of the side between clouds 1 and 3 to the sum of the other sides."""
    first, second, third = _sides(triple, rows, tau, p)
    return third / (first + second)


def _exchanges(tau: float) -> float:
    """The `_excess` of three clouds; ranks change on one axis, then on the other."""
    starts = SEPARATION * np.array([[-1, -1], [1, -1], [1, 1]])
    clouds = [np.vstack([start, [0, 1], [1, 0]]) for start in starts]
    # The clouds are repeated 200 times, so that a compiled program can be reused.
    x, y, z = (np.tile(cloud, (200, 1, 1)) for cloud in clouds)
    return float(_excess((x, y, z), AXES, tau, 2)[0])


@metric.register_misprint(
    "H5",
    claim=r"$D_p$ is a well-defined distance.",
    correction=r"It is one for $\tau = 0$ and slices on which no projections coincide.",
    counterexample="the axes: three points, two at the same height; and, with τ = 10, "
    "a triple whose first pair exchanges ranks on one axis, the second on the other",
)
def _(case: Case) -> Counterexample:
    x = np.tile(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]]), (200, 1, 1))
    itself = lambda rows: _sides((x, x, x), rows, 0.0, 2)[0, 0]
    rows = lib.directions(case.rng("generic"), 8)
    long_side = "long side over the others"
    return Counterexample(
        misprint=(
            compare("D₂(μ, μ), a tie", itself(AXES), "<=", 0, **ROUNDING_SLACK),
            compare(long_side, _exchanges(10.0), "<=", 1, **ROUNDING_SLACK),
        ),
        correction=(
            compare("D₂(μ, μ), a tie", itself(AXES), "=", 6**-0.5, **ROUNDING_SLACK),
            compare("D₂(μ, μ), no tie", itself(rows), "<=", 0, **ROUNDING_SLACK),
            compare(long_side, _exchanges(0.0), "<=", 1, **ROUNDING_SLACK),
        ),
    )


ARCS = 1024
# Two points exchange their ranks on `EXCHANGE_COUNTS` arcs.
EXCHANGE_COUNTS = np.array([1, 2, 4, 8])


def _upright_slices(count: int) -> Array:
    """The second axis, as the direction of all `count` slices."""
    return np.tile(np.array([0.0, 1.0]), (count, 1))


@statement(
    "shahbazi2025:Dp-equivalence",
    source="The distance D_p",
    claim=r"$D_p$ and $W_p$ have the same limits, but no constant bounds their ratio: "
    r"two places, turned by $\pm\varepsilon$, have $D_2^2 = \varepsilon^2 + "
    r"\frac1\pi\arctan 2\varepsilon$ and $W_2 = \varepsilon$.",
    hypotheses=r"$\sigma$ uniform on the circle, $\tau = 0$",
    control=(
        r"all slices are the second axis, where no ranks are exchanged",
        {"slices": _upright_slices},
        ("D₂", "order of D₂ in W₂"),
    ),
)
def equivalence(_: Case, *, slices: Callable[[int], Array] = _half_circle) -> Checks:
    r"""Compares $D_2$ of the library's plan of 1024 slices, and $W_2$, with formulas.

    Ranks are exchanged on 1, 2, 4 or 8 of the slices; for the corresponding
    $\varepsilon$, the mean over slices equals the mean over all directions. POT
    computes $W_2$.
    """
    epsilon, D, W = _turned_distances(slices(ARCS))
    exact = np.sqrt(epsilon**2 + np.arctan(2 * epsilon) / np.pi)
    yield gap("D₂", D, exact, **ROUNDING_SLACK)
    yield gap("W₂", W, epsilon, **ROUNDING_SLACK)
    yield order("order of D₂ in W₂", W, D, 0.5, names=("W₂", "D₂"))


def _turned_distances(rows: Array) -> tuple[Array, Array, Array]:
    r"""$\varepsilon$, $D_2$ and $W_2$ between two points and their turned images."""
    epsilon = np.tan(np.pi * EXCHANGE_COUNTS / ARCS) / 2
    x = np.tile(np.array([[0.0, 0.0], [0.0, 1.0]]), (4, 1, 1))
    y = x + epsilon[:, None, None] * np.array([[1.0, 0.0], [-1.0, 0.0]])
    D = _distances(x, y, lib.pair_plans(x, y, rows), 2)
    return epsilon, D, np.array([wasserstein(*pair) for pair in zip(x, y, strict=True)])


@equivalence.register_misprint(
    "H6",
    claim=r"$D_p$ is equivalent to $W_p$, read as for norms: their ratio is bounded.",
    correction=r"The topologies are the same; the ratio grows like "
    r"$(2/\pi\varepsilon)^{1/2}$.",
    counterexample=r"two places, turned by $\pm\varepsilon$",
)
def _(_: Case) -> Counterexample:
    epsilon, D, W = _turned_distances(_half_circle(ARCS))
    grows = lambda power: order("order of D₂/W₂ in ε", epsilon, D / W, power)
    return Counterexample(misprint=(grows(0.0),), correction=(grows(-0.5),))
