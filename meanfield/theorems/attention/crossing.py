"""Cross attention: queries and keys come from two measures."""

from meanfield.dynamics import Cross
from meanfield.theorems._arrays import Array, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, close, gap
from meanfield.theorems._vocabulary import Cloud, Law, Parameters
from meanfield.theorems.library import attentions as att
from meanfield.theorems.reference import formulas as ref
from meanfield.theorems.reference.measures import hermite_nodes

ROWWISE = ("softmax", "l2", "sigmoid", "linear")
NODES = 16
SOLVER_SLACK = Slack(
    tolerance=1e-9,
    why="marginals solved to 4e-11, over a spectral gap of a half, times 1/ε",
)


@statement(
    "new:cross",
    source="This project; §2 of castin2025 has queries and keys of one measure",
    claim=r"Queries $\mu$ that look at keys $\nu$ have $\Gamma(x) = V\int "
    r"y\,\kappa(x,y)\,d\nu(y)$; of softmax, L2, sigmoid and linear attention $\kappa$ "
    r"is of $\nu$ alone; of Sinkhorn its marginals are $\mu$ and $\nu$, so that "
    r"$\int\Gamma\,d\mu = V\bar y_\nu/\epsilon$. For Gaussians $N(\alpha, XX^\top)$ "
    r"and $N(\beta, YY^\top)$: $\Gamma = \frac1\epsilon V(\beta + \frac1\epsilon "
    r"YU\mathrm{diag}(1/h)U^\top Y^\top A(x - \alpha))$ with $Y^\top AX/\epsilon = "
    r"U\mathrm{diag}(\sigma)W^\top$, $h = (1 + \sqrt{1 + 4\sigma^2})/2$.",
    hypotheses=r"$\mu$, $\nu$ of any weights, of one mass",
    control=(
        "Sinkhorn stops after one half-step, independent of the law of the queries",
        {"iterations": 1},
        ("Sinkhorn…",),
    ),
)
def cross_attention(case: Case, *, iterations: int | None = None) -> Checks:
    """Compares the library's velocities of 5 weighted queries with a NumPy computation.

    The queries attend to 7 weighted keys. NumPy computes the Sinkhorn plan by
    alternating normalisation of a rectangular matrix. The closed forms for Gaussians of
    rank one (queries) and two (keys) in d = 3 are compared with clouds of Gauss–Hermite
    nodes.
    """
    # The control sets `iterations`, the number of half-steps of Sinkhorn attention.
    p, queries, keys = _draw(case)
    for name in ROWWISE:
        actual = _query_velocities(name, p, queries, keys)
        yield close(name, actual, att.FORMULAS[name](p, keys, queries.x))
    expected = _plan(p, queries, keys) @ keys.x @ p.V.T / p.epsilon
    mean = keys.share @ keys.x @ p.V.T / p.epsilon
    sinkhorn = _query_velocities("sinkhorn", p, queries, keys, iterations=iterations)
    yield gap("Sinkhorn", sinkhorn, expected, **SOLVER_SLACK)
    yield gap("Sinkhorn, mean", queries.share @ sinkhorn, mean, **SOLVER_SLACK)
    yield from _gaussians(case, iterations)


def _draw(case: Case) -> tuple[Parameters, Cloud, Cloud]:
    rng = case.rng("clouds")
    p = att.random_parameters(rng, 2, 3)
    queries, keys = att.random_cloud(rng, 5, 3), att.random_cloud(rng, 7, 3)
    spread = np.max(np.abs(att.scores_of(p, keys.x, queries.x)))
    return p._replace(epsilon=p.epsilon * spread / 2), queries, keys


def _query_velocities(
    name: str, p: Parameters, queries: Cloud, keys: Cloud, **options: int | None
) -> Array:
    """The library's velocities of the queries."""
    dynamics = Cross(p.attention(name, **options), att.points(keys))
    return np.asarray(att.velocity(dynamics, queries, queries))


def _plan(p: Parameters, queries: Cloud, keys: Cloud) -> Array:
    """Computes Sinkhorn weights in NumPy, of shape (queries, keys)."""
    scores = att.scores_of(p, keys.x, queries.x)
    f, g = ref.sinkhorn_potentials(scores, queries.share, keys.share)
    return np.exp(scores + f[:, None] + g[None, :]) * keys.share[None, :]


def _gaussians(case: Case, iterations: int | None) -> Checks:
    """At central nodes, compares closed forms for Gaussians with sums over clouds."""
    rng = case.rng("Gaussians")
    p = att.random_parameters(rng, 2, 3)
    mu = Law(rng.normal(size=3), rng.normal(size=(3, 1)))
    nu = Law(rng.normal(size=3), rng.normal(size=(3, 2)))
    size = np.linalg.norm(nu.factor.T @ p.A @ mu.factor, 2)
    p = p._replace(epsilon=np.asarray(4 * size))
    (x, w), (y, v) = (hermite_nodes(*law, NODES) for law in (mu, nu))
    queries, keys = Cloud(x, w), Cloud(y, v)
    mask = np.abs(x - mu.mean).max(axis=1) <= 2 * np.abs(mu.factor).max()
    attentions = p.attention("softmax"), p.attention("sinkhorn", iterations=iterations)
    softmax, sinkhorn = (
        att.gaussian_velocity(Cross(attention, nu.gaussian), mu.gaussian, x[mask])
        for attention in attentions
    )
    expected = (_plan(p, queries, keys) @ y @ p.V.T / p.epsilon)[mask]
    why = f"{NODES} nodes of tilts of a quarter, within two deviations: 1e-12"
    slack = Slack(tolerance=1e-9, why=why)
    yield gap("softmax, Gaussians", softmax, att.softmax(p, keys, x[mask]), **slack)
    yield gap("Sinkhorn, Gaussians", sinkhorn, expected, **slack)
