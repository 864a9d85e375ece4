"""Convergence of clouds of tokens to the continuum."""

import itertools

from meanfield.attention import attentions
from meanfield.dynamics import Layers, Sum, stack_trees
from meanfield.flows import fixed, flow
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Unary, eqx, jax, jnp, np
from meanfield.theorems._prelude import Case, Checks, statement
from meanfield.theorems._protocols import Slack, compare, gap
from meanfield.theorems.library.measures import starts
from meanfield.theorems.library.particles import KINDS
from meanfield.theorems.reference.measures import wasserstein

from . import _continuum as continuum

EPSILON = 1.3
EDGES = (0.0, 0.35, 1.0)
Q, K, V = (0.5, -0.4), (0.3, 0.35), (0.35, -0.4)  # one number for each layer
Q0, K0, V0 = 0.3, -0.4, 0.05  # parameters of a head that is constant in time
DT = 0.1
LOWER = 0.3  # share of a cell's mass that lies below its token
HEUN = "the same steps of Heun's method in NumPy, up to rounding"
WHY_STEPS = "the same Runge–Kutta steps in NumPy; marginals solved to 4e-11"
FINE = f"the continuum is sampled by {continuum.CELLS}² cells, within 1e-2 of it in W_1"


@statement(
    "castin2025:thm-3.1-uniqueness-meanfield",
    source="Theorem 3.1, §3.1",
    claim=r"If $W_p(\mu^n(0),\mu(0)) \to 0$ then $W_p(\mu^n(t),\mu(t)) \to 0$, at most "
    r"$C(t,R_0)$ times larger; so $\mu(t)$ is one, however $\mu(0)$ is approached.",
    hypotheses=r"compact supports; here $\rho \propto (1-4x^2)^2(1-4y^2)^2$, $p = 1$",
    control=(
        "tokens on a regular grid, whose measures have another limit",
        {"cut": lambda shares: shares - 0.5},
        ("W_1 to the continuum, …",),
    ),
)
def limit(case: Case, *, cut: Unary = continuum.cells) -> Checks:
    """Compares clouds of 9 to 64 tokens with the continuum, under five attentions.

    In the plane, a cloud has one token in each cell of equal mass, either at a lower
    quantile or in the middle. NumPy moves the continuum by Gauss–Jacobi nodes. Linear
    programmes give W_1 from the lower clouds to the continuum, and W_1 between both
    kinds of clouds, before and after the flow. On the line, the library's fixed-step
    flow over two layers is compared with a NumPy flow. Moments of the library's random
    clouds are tested too.
    """
    # NumPy must reproduce the library's fixed-step flow of 25 tokens over two layers.
    tokens = np.tanh(np.linspace(-1.5, 1.5, 25))
    final = np.asarray(_final(jnp.asarray(tokens), jnp.ones(25)))
    expected = _reference(tokens, tokens, np.full(25, 1 / 25))
    yield gap("25 tokens at t = 1", final, expected, tolerance=1e-13, why=HEUN)
    middle, lower = (continuum.carry_clouds(cut, offset) for offset in (0.5, LOWER))
    for name in KINDS:
        yield from _continuum_checks(name, middle[name], lower[name])
    yield from starts(case)


def _continuum_checks(
    name: str, middle: list[tuple[Array, Array]], lower: list[tuple[Array, Array]]
) -> Checks:
    """Checks distances of `lower` clouds to the continuum, and to `middle` clouds."""
    whole, C = continuum.continuum(name), continuum.growth_bound(name)
    first = np.array(
        [wasserstein(continuum.cloud(n, LOWER), whole[0], 1) for n in continuum.SIDES]
    )
    far = np.array([wasserstein(x[1], whole[1], 1) for x in lower])
    pairs = zip(middle, lower, strict=True)
    distances = np.array(
        [[wasserstein(x[i], y[i], 1) for i in (0, 1)] for x, y in pairs]
    )
    left, ratio = far[-1] / far[0], np.max(distances[:, 1] / distances[:, 0])
    nine, final_tokens = lower[0]
    expected = continuum.carry_tokens(name, nine, np.full(9, 1 / 9))
    label, less = f"W_1 to the continuum, {name}", "3/8, and a margin for the growth"
    fine, growth = Slack(tolerance=1e-2, why=FINE), max(far / first)
    steps = Slack(tolerance=1e-9, why=WHY_STEPS)
    yield gap(f"9 tokens at t, {name}", final_tokens, expected, **steps)
    yield compare(f"growth of {label}", growth, "<=", C, **fine)
    yield compare(f"{label}: of 64 tokens over 9", left, "<=", 0.45, why=less)
    yield compare(f"growth of W_1 of both, {name}", ratio, "<=", C)


@eqx.filter_jit
def _final(x: JaxArray, w: JaxArray) -> JaxArray:
    with jax.ensure_compile_time_eval():  # fixed steps need concrete layer edges
        layers = [
            attentions["softmax"]([[q]], [[k]], [[v]], epsilon=EPSILON)
            for q, k, v in zip(Q, K, V, strict=True)
        ]
        constant = attentions["softmax"]([[Q0]], [[K0]], [[V0]], epsilon=EPSILON)
        dynamics = Sum(constant, Layers(np.array(EDGES), stack_trees(layers)))
    mu, ts = Points.weighted(x[:, None], w), np.array([0.0, 1.0])
    return flow(dynamics, mu, ts, stepping=fixed(DT, "heun")).last[:, 0]


def _reference(x: Array, y: Array, w: Array) -> Array:
    """Tokens `x` at t = 1 in the flow of the atoms `y`, by Heun steps in NumPy."""

    def rate(layer: int, state: Array) -> Array:
        products = np.outer(state, state[len(x) :]) / EPSILON
        total = np.zeros(len(state))
        for qk, v in ((Q[layer] * K[layer], V[layer]), (Q0 * K0, V0)):
            weights = np.exp(qk * products) * w[None, :]
            total += v * (weights @ state[len(x) :]) / weights.sum(axis=1)
        return total

    state = np.concatenate([x, y])
    edges = np.union1d(np.round(np.arange(0, 1.01, DT), 12), EDGES)
    for a, b in itertools.pairwise(edges):
        layer = int((a + b) / 2 > EDGES[1])
        first = rate(layer, state)
        state = state + (b - a) / 2 * (first + rate(layer, state + (b - a) * first))
    return state[: len(x)]
