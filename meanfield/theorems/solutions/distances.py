"""Distances between measures, with and without positions."""

from meanfield import distances as library
from meanfield._pot import ot
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.reference.measures import programme, wasserstein

Atoms = tuple[Array, Array]  # positions of atoms and their weights
RADIUS = 1.2
POSITIONS = np.repeat([0.1, 0.35, 0.4, 0.9], [3, 1, 4, 2])
POSITION_GAPS = POSITIONS[:, None] - POSITIONS[None, :]
PROGRAMME = "a linear programme ends at a vertex, exact up to rounding of 1e-12"


PROGRAMME_SLACK = Slack(tolerance=1e-9, why=PROGRAMME)
DIFFERENCE_SLACK = Slack(
    tolerance=1e-8,
    why="squares of 1e-6 are differences of numbers of size 1: rounding is 1e-15 over "
    "1e-6",
)
PENALTY_SLACK = Slack(
    tolerance=1e-9,
    why="rounding of a programme with prices of 1e3: 1e3 × 1e-13 × 10 atoms",
)
HIGHS_SLACK = Slack(
    tolerance=1e-6,
    why="HiGHS accepts reduced costs and residuals of 1e-7, over a cost of 0.1",
)


@statement(
    "castin2025:def-3.2",
    source="Definition 3.2, §3.2",
    claim=r"$d(\mu,\nu)^2 = \int_0^1 W_2(\mu^\tau,\nu^\tau)^2\,d\theta(\tau)$ is the "
    r"cheapest transport that keeps positions; $d \ge W_2$ on "
    r"$[0,1]\times\mathbb{R}^d$.",
    hypotheses=r"both measures have the law $\theta$ of positions",
    control=(
        "positions counted equally, not by their law",
        {"theta": np.full(4, 0.25)},
        ("d² against one linear programme that keeps positions",),
    ),
)
def definition(case: Case, *, theta: Array | None = None) -> Checks:
    """Compares d, the integral of W_2 of conditionals, with three other computations.

    The library gives the conditionals and the law of positions, for weighted tokens at
    four positions with one to four atoms each. Linear programmes give W_2. The first
    reference is one linear programme over all plans that keep positions. The second is
    the closed form for one atom at each position. The third is W_2 on positions and
    states together, which must not exceed d and must equal it for small displacements.
    """
    pair, w = _clouds(case, 1.0)
    programme_cost = _programme(pair, w, penalty=np.where(POSITION_GAPS == 0, 0, 1e3))
    label = "d² against one linear programme that keeps positions"
    squared_distance = _squared_distance(pair, w, theta=theta)
    yield gap(label, squared_distance, programme_cost, **PENALTY_SLACK)
    ratio = _distance_ratio(pair, w)
    yield compare("W_2 / d, moved by 1", ratio, "<=", 1, **PROGRAMME_SLACK)
    ratio = _distance_ratio(*_clouds(case, 1e-3))
    yield compare("W_2 / d, moved by 0.001", ratio, "=", 1, **DIFFERENCE_SLACK)
    (x, y), w = _clouds(case, 0.3)
    first = np.unique(POSITIONS, return_index=True)[1]
    first_weights = np.zeros(len(w))
    first_weights[first] = w[first] / w[first].sum()
    exact = first_weights @ np.sum((x - y) ** 2, axis=1)
    label = "d² with one atom for each position"
    squared_distance = _squared_distance((x, y), first_weights)
    yield gap(label, squared_distance, exact, tolerance=1e-12, why=PROGRAMME)


def _distance_ratio(pair: tuple[Array, Array], w: Array) -> float:
    """Ratio of W_2, on positions and states together, to d."""
    d, W = _squared_distance(pair, w), _programme(pair, w, penalty=POSITION_GAPS**2)
    return np.sqrt(W) / np.sqrt(d)


@eqx.filter_jit
def _conditionals(x: JaxArray, w: JaxArray) -> tuple[JaxArray, JaxArray]:
    mu = Points.weighted(x, w, position=POSITIONS)
    masks = np.unique(POSITIONS)[:, None] == POSITIONS[None, :]
    probabilities = eqx.filter_vmap(lambda mask: mu.restrict(mask).probabilities)(masks)
    return masks @ mu.probabilities, probabilities


def _squared_distance(
    pair: tuple[Array, Array], w: Array, *, theta: Array | None = None
) -> float:
    r"""Integral $\int W_2(\mu^\tau, \nu^\tau)^2\,d\theta$ for the library's laws.

    By default, `theta` is the library's law of positions.
    """
    (law, first), (_, second) = (
        map(np.asarray, _conditionals(jnp.asarray(x), jnp.asarray(w))) for x in pair
    )
    law = law if theta is None else theta
    W = [
        wasserstein(*pair, weights=weights)
        for weights in zip(first, second, strict=True)
    ]
    return float(law @ np.array(W) ** 2)


def _programme(pair: tuple[Array, Array], w: Array, *, penalty: Array) -> float:
    """Least cost of a plan, for squared distances plus a penalty for each pair."""
    cost = ot.dist(*pair, metric="sqeuclidean") + penalty
    return float(np.asarray(ot.emd2(w, w, cost)))


def _clouds(case: Case, spread: float) -> tuple[tuple[Array, Array], Array]:
    rng = case.rng("clouds")
    n = len(POSITIONS)
    x, w = rng.normal(size=(n, 2)), rng.uniform(0.2, 1.8, size=n)
    return (x, x + spread * rng.normal(size=(n, 2))), w / w.sum()


@statement(
    "castin2025:lemma-B.11",
    source="Lemma B.11, §B",
    claim=r"Limits in $W_p$ of measures in $B_R$ are in $B_R$: $\delta^p\mu(\|x\| \ge "
    r"R+\delta) \le W_p(\mu,\nu)^p$ for $\nu$ in $B_R$.",
    hypotheses=r"$p \ge 1$, $\delta > 0$",
    control=(
        "ν in a ball of radius R + 0.3",
        {"inner": 1.5},
        ("δ^p μ(|x| ≥ R + δ) / W_p^p, a share moved out by δ",),
    ),
)
def closed_balls(case: Case, *, inner: float = 1.2) -> Checks:
    """Compares W_p(μ, ν)^p with δ^p μ(|x| ≥ R + δ), for measures ν in the ball B_R.

    W_p^p must be at least as large. In random pairs on the line, in the plane and in
    space, μ has five weighted atoms and ν four. The library gives the mass of μ outside
    of the ball, and W_2, which is compared with SciPy's linear programme; POT gives W_1
    and W_3. Both sides are equal if ν is a Dirac on the sphere, and μ is ν with a share
    of its mass moved outwards by δ.
    """
    # The control changes `inner`, the radius of the ball that holds the second measure.
    rng, label = case.rng("pairs"), "δ^p μ(|x| ≥ R + δ) / W_p^p"
    exact = Slack(tolerance=1e-12, why="rounding of a linear programme of five atoms")
    pairs = [
        _ball_pair(rng, d, inner) for d in (1, 2, 3) for _ in range(case.pick(20, 200))
    ]
    actual = np.array([_library_wasserstein(*pair) for pair in pairs])
    reference = [
        programme(np.linalg.norm(x[:, None] - y, axis=2) ** 2, v, w)[1]
        for (x, v), (y, w) in pairs
    ]
    yield gap("W_2² in dimensions 1, 2, 3", actual**2, reference, **HIGHS_SLACK)
    for p in (1, 2, 3):
        shares = []
        for (mu, nu), W in zip(pairs, actual, strict=True):
            delta, (x, v), (y, w) = rng.uniform(0.05, 0.8), mu, nu
            W = W if p == 2 else wasserstein(x, y, p, weights=(v, w))
            shares.append(delta**p * _mass_beyond(mu, RADIUS + delta) / W**p)
        yield compare(f"{label}, p = {p}", max(shares), "<=", 1.0, **exact)
    share, delta, u = 0.3, 0.4, np.array([0.6, 0.8])
    mu = np.stack([inner * u, (RADIUS + delta) * u]), np.array([1 - share, share])
    W = _library_wasserstein(mu, (inner * u[None], np.ones(1)))
    tail = delta**2 * _mass_beyond(mu, RADIUS + delta - 1e-12) / W**2
    yield compare(f"{label}, a share moved out by δ", tail, "=", 1.0, **exact)


def _ball_pair(rng: Rng, d: int, inner: float) -> tuple[Atoms, Atoms]:
    """Five weighted atoms, and four weighted atoms in a ball of radius `inner`."""
    x, y = rng.normal(size=(5, d)), rng.normal(size=(4, d))
    y *= inner * rng.uniform(size=(4, 1)) / np.linalg.norm(y, axis=1, keepdims=True)
    return (x, rng.dirichlet(np.ones(5))), (y, rng.dirichlet(np.ones(4)))


def _library_wasserstein(mu: Atoms, nu: Atoms) -> float:
    return library.wasserstein(Points.weighted(*mu), Points.weighted(*nu)).value


def _mass_beyond(mu: Atoms, radius: float) -> float:
    """The library's mass of the atoms at a distance of at least `radius`."""
    is_far = jnp.asarray(np.linalg.norm(mu[0], axis=1) >= radius)
    return float(Points.weighted(*mu).total(is_far.astype(float)))
