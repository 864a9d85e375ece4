"""Zero temperature, and value matrices drawn anew in each layer."""

from meanfield._typing import PRNGKey
from meanfield.attention import matrix_laws
from meanfield.dynamics import Drift, Sum
from meanfield.flows import flow
from meanfield.measures import Points
from meanfield.spaces import Sphere
from meanfield.theorems._arrays import Array, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap, z_score

from . import _flows as on


@statement(
    "new:hardmax-limit",
    source="softmax at low temperature",
    claim=r"If the scores of all keys but the leader $\ell$ are at least $\gamma$ "
    r"below the largest, softmax at inverse temperature $\beta$ differs from hardmax "
    r"by at most $e^{-\beta\gamma}\sum_j w_j|y_j - y_\ell|/w_\ell$.",
    control=(r"$2\gamma$ in place of $\gamma$", {"factor": 2.0}),
)
def limit(case: Case, *, factor: float = 1.0) -> Checks:
    """Compares the largest difference over random clouds with its bound."""
    rng, d, shares = case.rng("clouds"), 3, []
    for beta in (4.0, 8.0, 16.0):
        x, w = rng.normal(size=(6, d)), rng.random(6) + 0.1
        mu, cold = Points.weighted(x, w), on.attention("softmax", d, beta)
        fields = [cold.field(0.0, mu), on.attention("hardmax", d, 1.0).field(0.0, mu)]
        difference = np.asarray(fields[0](mu.tokens) - fields[1](mu.tokens))
        scores = x @ x.T
        leaders, best = np.argmax(scores, axis=1), np.sort(scores, axis=1)
        gamma = best[:, -1] - best[:, -2]
        spread = np.linalg.norm(x[None] - x[leaders][:, None], axis=2) @ w
        bound = np.exp(-factor * beta * gamma) * spread / w[leaders]
        shares.append(np.max(np.linalg.norm(difference, axis=1) / bound))
    slack = Slack(tolerance=1e-9, why="rounding of differences of 1e-6")
    yield compare("share of the bound", max(shares), "<=", 1.0, **slack)


@statement(
    "new:hardmax-polytope",
    source="Alcalde, Fantuzzi and Zuazua 2024, in continuous time",
    claim=r"Under $x' = m(x) - x$, where $m$ is the mean of the keys of the largest "
    r"$x\cdot y$, tokens stay in the polytope that they span at first, and the token "
    r"of the largest norm stands still.",
    control=(r"$-x/2$ in place of $-x$", {"rate": 0.5}),
)
def polytope(case: Case, *, rate: float = 1.0) -> Checks:
    """Follows twenty tokens in the plane, from event to event."""
    x = case.rng("cloud").normal(size=(20, 2))
    law = Sum(on.attention("hardmax", 2, 1.0), Drift(-rate * jnp.eye(2)))
    run = flow(law, Points.uniform(x), jnp.array([0.0, 1.0, 5.0]))
    y, longest = np.asarray(run.coordinates), np.argmax(np.linalg.norm(x, axis=1))
    slack = Slack(tolerance=1e-8, why="steps of relative error 4e-10")
    yield gap("motion of the longest", y[2, longest], x[longest], **slack)
    rays = on.random_sphere(case.rng("rays"), 50, 2)
    support = np.max(y @ rays.T, axis=1)  # of the polytope, in each direction
    yield compare("growth", np.max(support - support[0]), "<=", 0.0, **slack)


def _layer_changes(x: Array, beta: float, step: float, key: PRNGKey) -> Array:
    """Changes of the cosine of two tokens in a layer with V, and in one with -V."""
    d, mu = x.shape[1], Points.uniform(x, space=Sphere())
    means = on.attention("softmax", d, beta).field(0.0, mu)(mu.tokens)
    V = matrix_laws["normal"](key, (40_000, d, d))
    v = jnp.einsum("sde,ne->snd", V, means)
    ends = [Sphere().project(mu.tokens.x + sign * step * v) for sign in (1, -1)]
    return np.stack([np.sum(y[:, 0] * y[:, 1], axis=-1) for y in ends]) - x[0] @ x[1]


@statement(
    "new:sphere-random-values",
    source="layers with a new normal V, in the limit of short steps",
    claim=r"Per squared step, the cosine $\rho$ of two tokens has the drift $(1 - "
    r"\rho^2)(2pq(d - 2) - (p^2 + q^2)\rho)$ and the variance $2(1 - \rho^2)^2(p^2 + "
    r"q^2)$, where $p$ and $q$ are the weights of oneself and the other. So antipodal "
    r"tokens attract each other iff $\cosh 2\beta > d - 2$.",
    control=("twice the drift and the variance", {"factor": 2.0}),
)
def random_values(case: Case, *, factor: float = 1.0) -> Checks:
    """Compares means over 40 000 matrices and their negatives with the claim."""
    d, beta, step, rho = 6, 1.0, 0.01, -0.4
    x = np.zeros((2, d))
    x[:, 0], x[1, :2] = 1.0, (rho, np.sqrt(1 - rho**2))
    seed = int(case.rng("values").integers(2**31))
    forth, back = _layer_changes(x, beta, step, jax.random.key(seed)) / step
    p = 1 / (1 + np.exp(beta * (rho - 1)))
    q = 1 - p
    drifts, squares = (forth + back) / (2 * step), (forth - back) ** 2 / 4
    drift = (1 - rho**2) * (2 * p * q * (d - 2) - (p**2 + q**2) * rho)
    variance = 2 * (1 - rho**2) ** 2 * (p**2 + q**2)
    errors = [np.std(sample) / np.sqrt(len(sample)) for sample in (drifts, squares)]
    yield z_score("drift", np.mean(drifts), factor * drift, errors[0])
    yield z_score("variance", np.mean(squares), factor * variance, errors[1])
