"""Tokens follow the continuum."""

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array as JaxArray
from scipy.special import betaincinv, roots_jacobi

from meanfield.attention import attentions
from meanfield.dynamics import Layers, Sum, stacked
from meanfield.flows import fixed, flow
from meanfield.measures import Points
from meanfield.theorems._case import Case
from meanfield.theorems._check import Check
from meanfield.theorems._protocols import bounded, gap, order
from meanfield.theorems._statement import statement
from meanfield.theorems.library.measures import starts

Array = np.ndarray
EPSILON = 1.3
EDGES = (0.0, 0.35, 1.0)
Q, K, V = (0.5, -0.4), (0.3, 0.35), (0.35, -0.4)  # one number for each layer
Q0, K0, V0 = 0.3, -0.4, 0.05  # and of a head that does not change
DT = 0.1
COUNTS = (25, 50, 100, 200)
CELLS = 4 * COUNTS[-1]
HEUN = "the same steps of Heun's method in NumPy, up to rounding"


def _quantiles(n: int) -> Array:
    r"""Those of $\rho \propto (1-x^2)^2$ at the middles of n cells."""
    return 2 * betaincinv(3, 3, (np.arange(n) + 0.5) / n) - 1


@statement(
    "castin2025:thm-3.1-uniqueness-meanfield",
    source="Theorem 3.1, §3.1",
    claim=(
        r"If $W_p(\mu^n(0),\mu(0)) \to 0$ then $W_p(\mu^n(t),\mu(t)) \to 0$, at most "
        r"$C(t,R_0)$ times larger."
    ),
    hypotheses=r"compact supports; here softmax, and $\rho \propto (1-x^2)^2$",
)
def limit(
    case: Case, *, cloud: Callable[[int], Array] = _quantiles
) -> tuple[Check, ...]:
    """Clouds of 25 to 200 quantiles against the continuum, in two layers.

    They are filled up with tokens of no weight, and take fixed steps that land between
    the layers; the limit by 30 Gauss–Jacobi nodes in NumPy; W_1 by sorting. Moments of
    the clouds that the library draws, which are to tend to those of their laws.
    """
    tokens = [cloud(n) for n in COUNTS]
    final, continuum = _carried(tokens)
    start = _distances([_quantiles(n) for n in COUNTS], _quantiles(CELLS))
    end = _distances(final, continuum)
    few = tokens[0]
    expected = _reference(few, few, np.full(len(few), 1 / len(few)))
    return (
        gap("25 tokens at t = 1", final[0], expected, tolerance=1e-13, why=HEUN),
        order("order of W_1(1) in W_1(0)", start, end, 1.0, names=("W₁(0)", "W₁(1)")),
        bounded(
            "largest W_1(μⁿ(1), μ(1)) over W_1 of the quantiles to μ(0)",
            np.max(end / start),
            "<=",
            _constant(),
            tolerance=1e-2,
            why="800 cells for the continuum: 16 times as many change W_1 by 0.5 %",
        ),
        *starts(case),
    )


limit.refuted_if(
    "tokens on a grid instead: their measures have another limit",
    seen_by=("largest W_1(μⁿ(1), μ(1)) over W_1 of the quantiles to μ(0)",),
    cloud=lambda n: (2 * np.arange(n) + 1) / n - 1,
)


@eqx.filter_jit
def _final(x: JaxArray, w: JaxArray) -> JaxArray:
    with jax.ensure_compile_time_eval():  # fixed steps are laid out before tracing
        layers = [
            attentions["softmax"]([[q]], [[k]], [[v]], epsilon=EPSILON)
            for q, k, v in zip(Q, K, V, strict=True)
        ]
        constant = attentions["softmax"]([[Q0]], [[K0]], [[V0]], epsilon=EPSILON)
        dynamics = Sum(constant, Layers(np.array(EDGES), stacked(layers)))
    run = lambda y, p: flow(
        dynamics,
        Points.weighted(y[:, None], p),
        np.array([0.0, 1.0]),
        stepping=fixed(DT, "heun"),
    ).last[:, 0]
    return eqx.filter_vmap(run)(x, w)


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


def _padded(tokens: list[Array]) -> tuple[Array, Array]:
    """Clouds of one length: what is added has no weight, and stands apart."""
    x, w = np.full((2, len(tokens), COUNTS[-1]), 3.0)
    w[:] = 0
    for row, some in enumerate(tokens):
        x[row, : len(some)], w[row, : len(some)] = some, 1
    return x, w


def _distances(tokens: list[Array], continuum: Array) -> Array:
    """W_1 of each cloud to the continuum: both sorted, quantile by quantile."""
    far = lambda x: np.mean(np.abs(np.repeat(x, CELLS // len(x)) - continuum))
    return np.array([far(np.sort(x)) for x in tokens])


def _constant() -> float:
    """$C(1, 1)$ for softmax, from the largest norms."""
    sizes = [abs(v) + abs(V0) for v in V]
    R2 = np.exp(2 * sum(v * t for v, t in zip(sizes, np.diff(EDGES), strict=True)))
    v, pairs = max(sizes), zip((*Q, Q0), (*K, K0), strict=True)
    a = max(abs(q * k) for q, k in pairs) / EPSILON * R2
    return float(np.exp(v * (1 + 2 * a) * np.exp(2 * a) + v * a))


def _carried(tokens: list[Array]) -> tuple[list[Array], Array]:
    """The tokens at t = 1 by the library, and the continuum's cells by NumPy."""
    x, w = _padded(tokens)
    final = np.asarray(_final(jnp.asarray(x), jnp.asarray(w)))
    nodes, weights = roots_jacobi(30, 2, 2)
    continuum = _reference(_quantiles(CELLS), nodes, weights / weights.sum())
    return [y[: len(t)] for y, t in zip(final, tokens, strict=True)], continuum
