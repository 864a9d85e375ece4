"""Energies, spans, hemispheres and symmetries of flows on spheres."""

from meanfield.energies import Interaction, dissipation
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.spaces import Sphere
from meanfield.theorems._arrays import np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, close, compare, gap

from . import _flows as on

BETA = 2.0


def _rate_checks(case: Case, name: str, value: float, power: float) -> Checks:
    """Compares dE/dt with speeds that are weighted by Z to a power, in d = 2 and 4."""
    for d in (2, 4):
        x = on.random_sphere(case.rng(f"{d}"), 9, d)
        law = on.attention(name, d, BETA, value * np.eye(d))
        mu = Points.uniform(x, space=Sphere())
        energy = Interaction(Dot(np.eye(d), np.eye(d), 1 / BETA))
        rate = dissipation(energy, mu, law.field(0.0, mu))
        squares = np.sum(on.velocities(law, x) ** 2, axis=1)
        Z = np.exp(BETA * x @ x.T).mean(axis=1)
        yield close(f"dE/dt, d = {d}", rate, BETA * np.mean(Z**power * squares))


@statement(
    "new:sphere-energy-exp",
    source="exp attention is the gradient flow of the interaction energy",
    claim=r"Under exp with $Q = K = V = I$ the energy $E = \frac12\iint e^{\beta "
    r"x\cdot y}d\mu d\mu$ rises at the rate $\beta\int|v|^2d\mu$.",
    control=("V = -I, under which it falls", {"value": -1.0}),
)
def energy_exp(case: Case, *, value: float = 1.0) -> Checks:
    """Compares the library's rate with the speeds of random tokens, in d = 2 and 4."""
    return _rate_checks(case, "exp", value, 0.0)


@statement(
    "new:sphere-energy-softmax",
    source="softmax is a gradient flow in a metric weighted by the partition function",
    claim=r"Under softmax with $Q = K = V = I$ the energy $\frac12\iint e^{\beta "
    r"x\cdot y}d\mu d\mu$ rises at the rate $\beta\int Z|v|^2d\mu$ with $Z(x) = "
    r"\int e^{\beta x\cdot y}d\mu(y)$.",
    control=("without Z", {"power": 0.0}),
)
def energy_softmax(case: Case, *, power: float = 1.0) -> Checks:
    """Compares the library's rate with the speeds of random tokens, in d = 2 and 4."""
    return _rate_checks(case, "softmax", 1.0, power)


@statement(
    "new:sphere-hemisphere",
    source="convexity of the smallest height in a hemisphere",
    claim=r"Under softmax and exp with $V = I$ the smallest height $\min_i u\cdot x_i$ "
    r"of tokens in the hemisphere around $u$ does not fall, and all tokens meet.",
    control=("V = -I", {"value": -1.0}),
)
def hemisphere(case: Case, *, value: float = 1.0) -> Checks:
    """Measures heights and cosines of ten tokens along the library's flows."""
    x = on.random_sphere(case.rng("tokens"), 10, 3)
    x[:, 0] = np.abs(x[:, 0]) + 0.05
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for name in ("softmax", "exp"):
        ts = np.linspace(0, 30, 31)
        path = on.path(on.attention(name, 3, 1.0, value * np.eye(3)), x, ts)
        falls = np.diff(path[..., 0].min(axis=1)).min()
        slack = Slack(tolerance=1e-11, why="30 steps of relative error 1e-12")
        yield compare(f"least change of the height, {name}", falls, ">=", 0, **slack)
        cosine = (path[-1] @ path[-1].T).min()
        why = "30 units of time of attraction at a rate of at least 0.4"
        label = f"least cosine at the end, {name}"
        yield gap(label, cosine, 1, tolerance=1e-4, why=why)


@statement(
    "new:sphere-span",
    source="velocities are combinations of tokens",
    claim=r"With $V = I$ tokens stay in their span, for any $Q$ and $K$.",
    control=("a random V", {"mixing": 1.0}),
)
def span(case: Case, *, mixing: float = 0.0) -> Checks:
    """Measures components outside the span of three tokens in five dimensions."""
    rng = case.rng("tokens")
    x = on.random_sphere(rng, 3, 5)
    V = np.eye(5) + mixing * rng.normal(size=(5, 5))
    basis = np.linalg.qr(x.T)[0]
    for name in ("softmax", "exp", "sigmoid"):
        end = on.path(on.attention(name, 5, 1.0, V), x, np.array([0.0, 1.0]))[-1]
        outside = end - end @ basis @ basis.T
        yield gap(f"outside, {name}", outside, 0 * outside, scale=1.0, **on.ADAPTIVE)


@statement(
    "new:sphere-rotation",
    source="equivariance",
    claim=r"If tokens, $Q$, $K$ and $V$ are rotated together, the flow on the sphere "
    r"is rotated.",
    control=("V is not rotated", {"turns": 0.0}),
)
def rotation(case: Case, *, turns: float = 1.0) -> Checks:
    """Compares the library's flows of rotated and of original tokens."""
    rng = case.rng("tokens")
    x, V = on.random_sphere(rng, 8, 3), rng.normal(size=(3, 3))
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    W = R @ V @ R.T if turns else V
    for name in ("softmax", "exp", "linear"):
        first = on.path(on.attention(name, 3, 2.0, V), x, np.array([0.0, 1.0]))[-1]
        second = on.path(on.attention(name, 3, 2.0, W), x @ R.T, np.array([0.0, 1.0]))
        yield gap(f"tokens, {name}", second[-1], first @ R.T, **on.ADAPTIVE)
