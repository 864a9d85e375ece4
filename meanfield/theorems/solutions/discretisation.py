"""Tokens follow the continuum."""

import itertools

from meanfield.attention import attentions
from meanfield.dynamics import Layers, Sum, stacked
from meanfield.flows import fixed, flow
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Unary, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, bounded, gap
from meanfield.theorems.library.measures import starts
from meanfield.theorems.reference.measures import wasserstein

from ._continuum import (
    CELLS,
    SIDES,
    carried,
    cells,
    cloud,
    continuum,
    followed,
    growth_bound,
)
from ._particles import KINDS

EPSILON = 1.3
EDGES = (0.0, 0.35, 1.0)
Q, K, V = (0.5, -0.4), (0.3, 0.35), (0.35, -0.4)  # one number for each layer
Q0, K0, V0 = 0.3, -0.4, 0.05  # and of a head that does not change
DT = 0.1
LOWER = 0.3  # the share of a cell below a token
HEUN = "the same steps of Heun's method in NumPy, up to rounding"
STEPPED = "the same Runge–Kutta steps in NumPy; marginals solved to 4e-11"
FINE = f"{CELLS}² cells for the continuum: their own distance to it is below 1e-2"


@statement(
    "castin2025:thm-3.1-uniqueness-meanfield",
    source="Theorem 3.1, §3.1",
    claim=r"If $W_p(\mu^n(0),\mu(0)) \to 0$ then $W_p(\mu^n(t),\mu(t)) \to 0$, at most "
    r"$C(t,R_0)$ times larger; so $\mu(t)$ is one, however $\mu(0)$ is approached.",
    hypotheses=r"compact supports; here $\rho \propto (1-4x^2)^2(1-4y^2)^2$, $p = 1$",
    control=(
        "tokens on a grid instead: their measures have another limit",
        {"cut": lambda shares: shares - 0.5},
        ("W_1 to the continuum, …",),
    ),
)
def limit(case: Case, *, cut: Unary = cells) -> Checks:
    """Clouds of 9 to 64 tokens under five attentions in the plane.

    A cloud has a token for each cell of equal mass, at a lower quantile or, another
    approach to the same measure, in the middle. W_1 by linear programmes: of the first
    to the continuum, which Gauss–Jacobi nodes carry in NumPy, and of both, before and
    after. On the line, the library's fixed steps over two layers; moments of the
    clouds that it draws, which are to tend to those of their laws.
    """
    # The library's fixed steps of 25 tokens over two layers, against NumPy's.
    few = np.tanh(np.linspace(-1.5, 1.5, 25))
    final = np.asarray(_final(jnp.asarray(few), jnp.ones(25)))
    expected = _reference(few, few, np.full(25, 1 / 25))
    yield gap("25 tokens at t = 1", final, expected, tolerance=1e-13, why=HEUN)
    middle, lower = (carried(cut, at) for at in (0.5, LOWER))
    for name in KINDS:
        yield from _followed(name, middle[name], lower[name])
    yield from starts(case)


def _followed(
    name: str, middle: list[tuple[Array, Array]], lower: list[tuple[Array, Array]]
) -> Checks:
    """Distances of lower tokens to the continuum, and to those in the middle."""
    whole, C = continuum(name), growth_bound(name)
    first = np.array([wasserstein(cloud(n, LOWER), whole[0], 1) for n in SIDES])
    far = np.array([wasserstein(x[1], whole[1], 1) for x in lower])
    both = zip(middle, lower, strict=True)
    apart = np.array([[wasserstein(x[i], y[i], 1) for i in (0, 1)] for x, y in both])
    left, ratio = far[-1] / far[0], np.max(apart[:, 1] / apart[:, 0])
    nine, at_last = lower[0]
    alone = followed(name, nine, np.full(9, 1 / 9))
    label, less = f"W_1 to the continuum, {name}", "3/8 and what differs in growth"
    fine, grown = Slack(tolerance=1e-2, why=FINE), max(far / first)
    yield gap(f"9 tokens at t, {name}", at_last, alone, tolerance=1e-9, why=STEPPED)
    yield bounded(f"growth of {label}", grown, "<=", C, **fine)
    yield bounded(f"{label}: of 64 tokens over 9", left, "<=", 0.45, why=less)
    yield bounded(f"growth of W_1 of both, {name}", ratio, "<=", C)


@eqx.filter_jit
def _final(x: JaxArray, w: JaxArray) -> JaxArray:
    with jax.ensure_compile_time_eval():  # fixed steps are laid out before tracing
        layers = [
            attentions["softmax"]([[q]], [[k]], [[v]], epsilon=EPSILON)
            for q, k, v in zip(Q, K, V, strict=True)
        ]
        constant = attentions["softmax"]([[Q0]], [[K0]], [[V0]], epsilon=EPSILON)
        dynamics = Sum(constant, Layers(np.array(EDGES), stacked(layers)))
    mu, ts = Points.weighted(x[:, None], w), np.array([0.0, 1.0])
    return flow(dynamics, mu, ts, stepping=fixed(DT, "heun")).last[:, 0]


def _reference(x: Array, y: Array, w: Array) -> Array:
    """Where `x` are carried by the flow of the atoms `y`, by Heun's method."""

    def rate(layer: int, at: Array) -> Array:
        products, total = np.outer(at, at[len(x) :]) / EPSILON, np.zeros(len(at))
        for qk, v in ((Q[layer] * K[layer], V[layer]), (Q0 * K0, V0)):
            weights = np.exp(qk * products) * w[None, :]
            total += v * (weights @ at[len(x) :]) / weights.sum(axis=1)
        return total

    at = np.concatenate([x, y])
    edges = np.union1d(np.round(np.arange(0, 1.01, DT), 12), EDGES)
    for a, b in itertools.pairwise(edges):
        layer = int((a + b) / 2 > EDGES[1])
        first = rate(layer, at)
        at = at + (b - a) / 2 * (first + rate(layer, at + (b - a) * first))
    return at[: len(x)]
