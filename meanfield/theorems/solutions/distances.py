"""Distances between measures, with positions and without."""

from meanfield._pot import ot
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, gap
from meanfield.theorems.reference.measures import wasserstein

POSITIONS = np.repeat([0.1, 0.35, 0.4, 0.9], [3, 1, 4, 2])
PROGRAMME = "an optimal basis of a linear programme is exact up to rounding: 1e-12 of 1"


FAR = Slack(tolerance=1e-9, why=PROGRAMME)
NEAR = Slack(
    tolerance=1e-8,
    why="squares of 1e-6 are differences of numbers of size 1: rounding is 1e-15 over "
    "1e-6",
)
DEAR = Slack(
    tolerance=1e-9,
    why="rounding of a programme with prices of 1e3: 1e3 × 1e-13 × 10 atoms",
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
    """The integral of W_2 of conditionals, against other ways to the same number.

    Conditionals and law are those of the library's weighted tokens at four positions of
    one to four atoms, W_2 by linear programmes; against one programme over all plans
    that keep positions, against the closed form with one atom for each position, and
    against W_2 of positions and states together, which it equals for small moves.
    """
    (pair, w), apart = _clouds(case, 1.0), POSITIONS[:, None] - POSITIONS[None, :]
    kept = _programme(pair, w, across=np.where(apart == 0, 0, 1e3))
    label = "d² against one linear programme that keeps positions"
    yield gap(label, _squared(pair, w, theta=theta), kept, **DEAR)
    d, W = _squared(pair, w), _programme(pair, w, across=apart**2)
    yield bounded("W_2 / d, moved by 1", np.sqrt(W) / np.sqrt(d), "<=", 1, **FAR)
    near, w = _clouds(case, 1e-3)
    d, W = _squared(near, w), _programme(near, w, across=apart**2)
    yield bounded("W_2 / d, moved by 0.001", np.sqrt(W) / np.sqrt(d), "=", 1, **NEAR)
    (x, y), w = _clouds(case, 0.3)
    first = np.unique(POSITIONS, return_index=True)[1]
    alone = np.zeros(len(w))
    alone[first] = w[first] / w[first].sum()
    exact = alone @ np.sum((x - y) ** 2, axis=1)
    label = "d² with one atom for each position"
    yield gap(label, _squared((x, y), alone), exact, tolerance=1e-12, why=PROGRAMME)


@eqx.filter_jit
def _conditioned(x: JaxArray, w: JaxArray) -> tuple[JaxArray, JaxArray]:
    mu = Points.weighted(x, w, position=POSITIONS)
    places = np.unique(POSITIONS)
    at = places[:, None] == POSITIONS[None, :]
    given = eqx.filter_vmap(lambda here: mu.restricted(here).probabilities)(at)
    return at @ mu.probabilities, given


def _squared(
    pair: tuple[Array, Array], w: Array, *, theta: Array | None = None
) -> float:
    r"""$\int W_2(\mu^\tau, \nu^\tau)^2\,d\theta$, with `theta` for the law if given.

    The law of positions, and the weights of each conditional, are the library's.
    """
    (law, first), (_, second) = (
        map(np.asarray, _conditioned(jnp.asarray(x), jnp.asarray(w))) for x in pair
    )
    law = law if theta is None else theta
    W = [wasserstein(*pair, weights=both) for both in zip(first, second, strict=True)]
    return float(law @ np.array(W) ** 2)


def _programme(pair: tuple[Array, Array], w: Array, *, across: Array) -> float:
    """The cheapest plan of both clouds, with a price for changes of position."""
    cost = ot.dist(*pair, metric="sqeuclidean") + across
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
def closed(case: Case, *, inner: float = 1.2) -> Checks:
    """W_p by linear programmes for random pairs, against what lies outside.

    Five and four weighted atoms, p = 1, 2, 3; and a Dirac on the sphere of which a
    share is moved out, which reaches the bound.
    """
    # The second measure lies in the ball of radius `inner`. The last pair is a Dirac
    # and itself with a share moved out by exactly δ.
    rng, R = case.rng("pairs"), 1.2
    ratios = []
    for _ in range(case.pick(200, 1000)):
        p, delta = rng.choice([1.0, 2.0, 3.0]), rng.uniform(0.05, 0.8)
        x = rng.normal(size=(5, 2))
        y = rng.normal(size=(4, 2))
        y *= inner * rng.uniform(size=(4, 1)) / np.linalg.norm(y, axis=1, keepdims=True)
        w = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
        out = np.linalg.norm(x, axis=1) >= R + delta
        ratios.append(delta**p * w[0][out].sum() / wasserstein(x, y, p, weights=w) ** p)
    share, delta, u = 0.3, 0.4, np.array([0.6, 0.8])
    x, y = np.stack([inner * u, (R + delta) * u]), inner * u[None]
    W = wasserstein(x, y, 2, weights=(np.array([1 - share, share]), np.ones(1)))
    why = "rounding of a linear programme of five atoms"
    exact, label = Slack(tolerance=1e-12, why=why), "δ^p μ(|x| ≥ R + δ) / W_p^p"
    yield bounded(f"{label}, random pairs", max(ratios), "<=", 1.0, **exact)
    out = share * (delta / W) ** 2
    yield bounded(f"{label}, a share moved out by δ", out, "<=", 1.0, **exact)
