"""Tokens on the circle: Möbius maps, polygons, and centres as cars that park."""

import functools

from scipy.optimize import bisect

from meanfield.attention import attentions
from meanfield.frame_numbers import frame_number
from meanfield.measures import Points
from meanfield.spaces import Sphere
from meanfield.theorems._arrays import Array, JaxArray, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, gap, z_score

from . import _flows as on

RENYI = 0.7475979202534  # share of a street with cars that parked at random


def _circle(angles: Array) -> Array:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@statement(
    "new:sphere-moebius",
    source="the flow of the Kuramoto model on the circle consists of Möbius maps",
    claim=r"On the circle, cross ratios of four tokens $e^{i\theta}$ stay under "
    r"uniform attention ($A = 0$), and those of $e^{2i\theta}$ under linear attention.",
    control=("softmax at β = 2", {"name": "softmax"}),
)
def moebius(case: Case, *, name: str = "") -> Checks:
    """Measures cross ratios along the library's flows of six tokens."""
    start = _circle(case.rng("angles").uniform(0, 6, size=6))
    V = np.array([[1.0, 0.3], [-0.5, 0.8]])
    ts = np.array([0.0, 0.7])
    laws = {
        1: on.attention("softmax", 2, 2.0 if name else 1e-300),
        2: on.attention(name or "linear", 2, 2.0, V),
    }
    for power, law in laws.items():
        x, y = np.moveaxis(on.path(law, start, ts), -1, 0)
        a, b, c, d = ((x + 1j * y) ** power)[:, :4].T
        ratios = (a - c) * (b - d) / ((a - d) * (b - c))
        change = abs(ratios[1] / ratios[0] - 1)
        yield gap(f"cross ratio of e^({power}iθ)", change, 0, scale=1.0, **on.ADAPTIVE)


def _stiffness(count: int, beta: float) -> float:
    """The largest growth rate of a polygon under exp, apart from turning it."""
    unit = np.eye(2)
    law = attentions["exp"](np.sign(beta) * unit, unit, unit, epsilon=1 / abs(beta))

    def turning(angles: JaxArray) -> JaxArray:
        x = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
        mu = Points.uniform(x, space=Sphere())
        v = mu.transport(law.field(0.0, mu))
        return x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0]

    angles = 2 * jnp.pi * jnp.arange(count) / count
    rates = np.sort(np.linalg.eigvals(jax.jacobian(turning)(angles)).real)
    return float(np.delete(rates, np.argmin(np.abs(rates)))[-1])


@statement(
    "new:sphere-triangle",
    source="linearisation at a regular triangle",
    claim=r"Under exp attention a regular triangle of tokens on the circle is stable "
    r"if and only if $\beta < -2/3$.",
    control=("a square in place of the triangle", {"count": 4}),
)
def triangle(_: Case, *, count: int = 3) -> Checks:
    """Finds where the largest growth rate changes its sign, by the library's field."""
    rate = functools.partial(_stiffness, count)
    has_root = rate(-3.0) * rate(-0.05) < 0
    root = bisect(rate, -3.0, -0.05, xtol=1e-12) if has_root else 0.0
    why = "bisection to 1e-12, rounding of derivatives"
    yield gap("critical β", root, -2 / 3, tolerance=1e-9, why=why)


@statement(
    "new:sphere-polygon",
    source="symmetry under the rotations of the polygon",
    claim=r"Regular polygons of tokens of equal weight are stationary under softmax, "
    r"exp and sigmoid attention with $Q = K = V = I$.",
    control=("one vertex is displaced by 0.1", {"shift": 0.1}),
)
def polygon(_: Case, *, shift: float = 0.0) -> Checks:
    """Measures the largest speed of the library's tokens, for 3, 5 and 8 vertices."""
    slack = Slack(tolerance=1e-14, why="rounding of sums over eight tokens")
    for name in ("softmax", "exp", "sigmoid"):
        for count in (3, 5, 8):
            angles = 2 * np.pi * np.arange(count) / count
            angles[0] += shift
            v = on.velocities(on.attention(name, 2, 2.0), _circle(angles))
            size = np.abs(v).max()
            yield gap(f"speed, {name}, {count} tokens", size, 0, scale=1.0, **slack)


@statement(
    "new:parking",
    source="Rényi's parking constant",
    claim=r"Of many uniform tokens on the circle, the number of Rényi centres at the "
    r"distance $\delta$ is about $0.7476\cdot2\pi/\delta$.",
    control=(r"the distance $2\delta$", {"stretch": 2.0}),
)
def parking(case: Case, *, stretch: float = 1.0) -> Checks:
    """Compares a mean over random circles of 20 000 tokens with the constant."""
    rng, delta, count = case.rng("circles"), 0.02, case.pick(12, 60)
    number, n = frame_number(f"centres:{stretch * delta:g}"), 20_000
    circles = [_circle(rng.uniform(0, 2 * np.pi, n)) for _ in range(count)]
    counts = [number(x, np.ones(n)) for x in circles]
    claim = RENYI * 2 * np.pi / delta
    # Gaps that no token has filled yet, and the ends of the street, are 1.5 %.
    error = np.std(counts, ddof=1) / np.sqrt(count) + 0.015 * claim / 4.5
    yield z_score("mean number", float(np.mean(counts)), claim, error)
