"""Sliced transport: what the expected plan costs, as a distance."""

from collections.abc import Callable

from meanfield.theorems._arrays import Array, Binary, jnp, np
from meanfield.theorems._prelude import Case, Checks, Counterexample, statement
from meanfield.theorems._protocols import Slack, bounded, close, gap, order
from meanfield.theorems.library import slices as lib
from meanfield.theorems.library.attentions import bare
from meanfield.theorems.reference import slices as ref
from meanfield.theorems.reference.measures import wasserstein

ROUNDED = Slack(tolerance=1e-9, why="roots of sums of a dozen products, of size one")


def _distances(x: Array, y: Array, plans: Array, p: int) -> Array:
    """$D_p$ of each pair."""
    return np.sum(ref.powers(x, y, p) * plans, axis=(1, 2)) ** (1 / p)


def _half_circle(count: int) -> Array:
    """Directions at the middles of equal arcs of a half circle."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@statement(
    "shahbazi2025:eq-10",
    source="Eq. (10)",
    claim=r"The cost of a slice is $D_p^p = \sum_{ij}|x_i - y_j|^pU_{ij} = "
    r"\frac1N\sum_i|x_i - y_{\pi(i)}|^p$, with $\pi(i)$ of the same rank as $i$.",
    hypotheses=r"hard sorting, equal weights, projections of either side distinct",
    control=(
        r"queries and keys are paired as they are numbered, $\pi(i) = i$",
        {"partner": lambda a, _: np.arange(len(a))},
    ),
)
def along(case: Case, *, partner: Binary = ref.partner) -> Checks:
    r"""Costs of the library's plans of four slices against sums along permutations.

    For p = 1, 2, 3; and the library's own, p = 2, as its weights
    $\sigma_l \propto e^{-\tau D_l}$ show them, read off its plan of all four.
    """
    rng = case.rng("slices")
    at, rows, tau = bare(rng.normal(size=(12, 4))), lib.directions(rng, 4), 0.7
    x, y = at.x[:, :2], at.x[:, 2:]
    orders = [partner(x @ theta, y @ theta) for theta in rows]
    plans = lib.couplings(rows, at)
    for p in (1, 2, 3):
        table = ref.powers(x, y, p)
        costs = np.array([table[np.arange(12), pi].mean() for pi in orders])
        yield close(f"p = {p}", np.sum(table * plans, axis=(1, 2)), costs)
    squares = np.array([np.mean(np.sum((x - y[pi]) ** 2, axis=1)) for pi in orders])
    together = lib.coupling(lib.sliced(lib.between(2), rows, tau), at)
    shares = np.linalg.lstsq(plans.reshape(4, -1).T, together.ravel())[0]
    logs, expected = np.log(shares / shares[0]), -tau * (squares - squares[0])
    yield gap("the library's own", logs, expected, **ROUNDED)


def _mean_plan(x: Array, y: Array) -> Array:
    """The library's, of eight slices."""
    return lib.pair_plans(x, y, _half_circle(8), jnp.zeros(()))


def _nearest(x: Array, y: Array) -> Array:
    """Each query gives all of its mass to the nearest key."""
    n = x.shape[1]
    return np.eye(n)[np.argmin(ref.powers(x, y, 2), axis=2)] / n


@statement(
    "shahbazi2025:Dp-lower",
    source="The distance D_p",
    claim=r"$D_p(\mu, \nu) = (\sum_{ij}|x_i - y_j|^p\bar\gamma_{ij})^{1/p} \geq "
    r"W_p(\mu, \nu)$, with equality for translates.",
    control=("each query takes the nearest key: no coupling", {"plan": _nearest}),
)
def above(case: Case, *, plan: Binary = _mean_plan) -> Checks:
    """300 pairs of three tokens in the plane, and as many translates.

    The library's plans of eight slices against $W_p$ from all permutations, p = 1, 2,
    3; distances of translates against the lengths of their shifts.
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
        yield bounded(f"largest W/D, p = {p}", ratio, "<=", 1, **ROUNDED)
        yield gap(f"D of translates, p = {p}", D[300:], lengths, **ROUNDED)


AXES = np.repeat(np.eye(2), 4, axis=0)
NEAR = 0.01  # by how much two places are apart that exchange their ranks


@statement(
    "shahbazi2025:Dp-metric",
    source="The distance D_p",
    claim=r"$D_p$ is a metric: zero between equal measures alone, symmetric, and "
    r"$D_p(\mu, \rho) \leq D_p(\mu, \nu) + D_p(\nu, \rho)$.",
    hypotheses=r"$\tau = 0$; projections coincide on no direction that $\sigma$ "
    r"charges, as they do on none but a null set if $\sigma$ has a density",
    remark="On each slice it is the p-norm of differences of sorted tokens; so it is "
    "on all of them together, by Minkowski's inequality.",
    control=(r"$\tau = 10$", {"tau": 10.0}, ("two exchanges",)),
)
def metric(case: Case, *, tau: float = 0.0) -> Checks:
    """The library's plans between 200 triples of three tokens, by eight slices.

    The middle cloud is moved at random wherever that brings the sides nearer to
    equality; and a triple whose first pair exchanges ranks on one axis, and whose
    second on the other.
    """
    rng = case.rng("triples")
    x, y, z = rng.normal(size=(3, 200, 3, 2))
    rows, moves = lib.directions(rng, 8), case.pick(12, 60)
    ratio = _excess((x, y, z), rows, tau, 2)
    for _ in range(moves):
        near = y + 0.3 * rng.normal(size=y.shape)
        trial = _excess((x, near, z), rows, tau, 2)
        y = np.where((trial > ratio)[:, None, None], near, y)
        ratio = np.maximum(ratio, trial)
    top = [np.max(_excess((x, y, z), rows, tau, p)) for p in (1, 2)]
    there, back, none = _sides((x, y, x), rows, tau, 2)
    yield bounded("triangles, p = 1", top[0], "<=", 1, **ROUNDED)
    yield bounded("triangles, p = 2", top[1], "<=", 1, **ROUNDED)
    yield bounded("two exchanges", _exchanges(tau), "<=", 1, **ROUNDED)
    yield gap("D(μ, ν) and D(ν, μ)", there, back, **ROUNDED)
    yield gap("D(μ, μ)", none, np.zeros(200), **ROUNDED)
    yield bounded("least D(μ, ν)", np.min(there), ">=", 1e-3)


Triple = tuple[Array, Array, Array]


def _sides(triple: Triple, rows: Array, tau: float, p: int) -> Array:
    """$D$ between the first and second, second and third, first and third clouds."""
    x, y, z = triple
    starts, ends = np.concatenate([x, y, x]), np.concatenate([y, z, z])
    plans = lib.pair_plans(starts, ends, rows, jnp.asarray(tau))
    return _distances(starts, ends, plans, p).reshape(3, -1)


def _excess(triple: Triple, rows: Array, tau: float, p: int) -> Array:
    """The long side over the sum of the short ones."""
    first, second, third = _sides(triple, rows, tau, p)
    return third / (first + second)


def _exchanges(tau: float) -> float:
    """The same of one triple, on the axes: one place passes others on either axis."""
    starts = NEAR * np.array([[-1, -1], [1, -1], [1, 1]])
    clouds = [np.vstack([start, [0, 1], [1, 0]]) for start in starts]
    x, y, z = (np.tile(cloud, (200, 1, 1)) for cloud in clouds)  # for one program
    return float(_excess((x, y, z), AXES, tau, 2)[0])


@metric.misprinted(
    "H5",
    printed=r"$D_p$ is a well-defined distance.",
    corrected=r"It is one for $\tau = 0$ and slices on which no projections coincide.",
    counterexample="the axes: three places, two of them at one height; and a triple "
    "whose first pair exchanges ranks on one axis, second on the other, τ = 10",
)
def _(case: Case) -> Counterexample:
    x = np.tile(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]]), (200, 1, 1))
    itself = lambda rows: _sides((x, x, x), rows, 0.0, 2)[0, 0]
    rows = lib.directions(case.rng("generic"), 8)
    return Counterexample(
        printed=(
            bounded("D₂(μ, μ), a tie", itself(AXES), "<=", 0, **ROUNDED),
            bounded("long side over the others", _exchanges(10.0), "<=", 1, **ROUNDED),
        ),
        corrected=(
            bounded("D₂(μ, μ), a tie", itself(AXES), "=", 6**-0.5, **ROUNDED),
            bounded("D₂(μ, μ), no tie", itself(rows), "<=", 0, **ROUNDED),
            bounded("long side over the others", _exchanges(0.0), "<=", 1, **ROUNDED),
        ),
    )


ARCS = 1024
EXCHANGED = np.array([1, 2, 4, 8])  # arcs on which two places exchange their ranks


def _upright(count: int) -> Array:
    """One direction, as often."""
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
        {"slices": _upright},
        ("D₂", "order of D₂ in W₂"),
    ),
)
def equivalence(case: Case, *, slices: Callable[[int], Array] = _half_circle) -> Checks:
    r"""The library's plan of 1024 slices, on 1, 2, 4 or 8 of which ranks are exchanged.

    There the mean over slices is that over directions. $W_2$ by POT.
    """
    del case
    epsilon, D, W = _turned(slices(ARCS))
    exact = np.sqrt(epsilon**2 + np.arctan(2 * epsilon) / np.pi)
    yield gap("D₂", D, exact, **ROUNDED)
    yield gap("W₂", W, epsilon, **ROUNDED)
    yield order("order of D₂ in W₂", W, D, 0.5, names=("W₂", "D₂"))


def _turned(rows: Array) -> tuple[Array, Array, Array]:
    r"""$\varepsilon$, $D_2$ and $W_2$ of two places and the same turned about."""
    epsilon = np.tan(np.pi * EXCHANGED / ARCS) / 2
    x = np.tile(np.array([[0.0, 0.0], [0.0, 1.0]]), (4, 1, 1))
    y = x + epsilon[:, None, None] * np.array([[1.0, 0.0], [-1.0, 0.0]])
    D = _distances(x, y, lib.pair_plans(x, y, rows), 2)
    return epsilon, D, np.array([wasserstein(*pair) for pair in zip(x, y, strict=True)])


@equivalence.misprinted(
    "H6",
    printed=r"$D_p$ is equivalent to $W_p$, read as for norms: their ratio is bounded.",
    corrected=r"The topologies are the same; the ratio grows like "
    r"$(2/\pi\varepsilon)^{1/2}$.",
    counterexample=r"two places, turned by $\pm\varepsilon$",
)
def _(case: Case) -> Counterexample:
    del case
    epsilon, D, W = _turned(_half_circle(ARCS))
    grows = lambda power: order("order of D₂/W₂ in ε", epsilon, D / W, power)
    return Counterexample(printed=(grows(0.0),), corrected=(grows(-0.5),))
