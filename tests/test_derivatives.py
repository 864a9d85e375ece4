"""Second derivatives through loops, where JAX drops the rules of a `custom_jvp`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import orthogonal
from jaxtyping import Array
from stress_reference import Head, sinkhorn_energy, velocities

from meanfield._derivatives import custom_derivative
from meanfield.attention import Attention, Sinkhorn, attentions
from meanfield.energies import SinkhornEnergy
from meanfield.linalg import psd_sqrt, sqrt_one_plus_four
from meanfield.measures import AbstractReduction, Blocked, Chebyshev, Dense, Points
from meanfield.tokens import Tokens

slow = pytest.mark.slow
Loss = Callable[[Array], Array]


def directional_second_derivatives(
    loss: Loss,
) -> dict[str, Callable[[Array, Array], Array]]:
    """Second derivatives along one direction, by both modes that need a transpose."""
    slope = lambda x, e: jnp.vdot(jax.grad(loss)(x), e)
    return {
        "forward over reverse": lambda x, e: jax.jvp(lambda y: slope(y, e), (x,), (e,))[
            1
        ],
        "reverse over reverse": lambda x, e: jnp.vdot(
            jax.grad(lambda y: slope(y, e))(x), e
        ),
    }


def second_difference(loss: Callable, x: np.ndarray, e: np.ndarray) -> float:
    """A sixth-order difference, with rounding near 1e-16 / h²."""
    at = lambda k: float(loss(x + k * 1e-2 * e))
    pairs = [at(k) + at(-k) - 2 * at(0) for k in (1, 2, 3)]
    return (270 * pairs[0] - 27 * pairs[1] + 2 * pairs[2]) / 180 / 1e-4


def test_a_rule_holds_in_loops_under_vmap_and_for_integers():
    """The body is constant: only the custom rule makes it a cube."""
    rule = lambda value, args, tangents: 3 * args[0] ** 2 * tangents[0]
    cube = custom_derivative(rule)(lambda x, count: jax.lax.stop_gradient(x**3) * count)

    def scan_twice(x: Array, n: Array) -> Array:
        step = lambda y, _: (cube(y, n), None)
        return jax.lax.scan(step, x, length=2)[0]  # x⁹

    x, n = jnp.array([0.7, 1.1]), jnp.array([1, 1])
    second_derivative = lambda d: jax.jit(jax.vmap(d(d(scan_twice))))(x, n)
    np.testing.assert_allclose(second_derivative(jax.grad), 72 * x**7, rtol=1e-14)
    np.testing.assert_allclose(second_derivative(jax.jacfwd), 72 * x**7, rtol=1e-14)
    mixed = jax.jit(jax.vmap(jax.jacfwd(jax.grad(scan_twice))))(x, n)
    np.testing.assert_allclose(mixed, 72 * x**7, rtol=1e-14)


SINGULAR_VALUES = {
    "equal": [0.9, 0.9, 0.9],
    "nearly equal": [0.9, 0.9 + 1e-9, 1.3],
    "of rank one": [1.3, 0.0, 0.0],
    "zero": [0.0, 0.0, 0.0],
}


def symmetric_root_argument(root: Callable, M: Array, C: Array) -> Array:
    return root(M) @ C / 2 + 0.3 * M


def covariance_argument(root: Callable, M: Array, C: Array) -> Array:
    return root(M) + C @ C.T / 4


def numpy_root(S: np.ndarray) -> np.ndarray:
    values, U = np.linalg.eigh(S)
    return (U * np.sqrt(values)) @ U.T


ROOTS = {
    "one plus four": (
        symmetric_root_argument,
        sqrt_one_plus_four,
        lambda M: numpy_root(np.eye(len(M)) + 4 * M @ M.T),
    ),
    "positive": (covariance_argument, psd_sqrt, numpy_root),
}
COMPILED_DERIVATIVES: dict[tuple[str, str], Callable] = {}


def second_derivative_of_root(
    name: str, mode: str, c: Array, x: Array, e: Array
) -> Array:
    """Compiled once for all matrices."""
    step, root, _ = ROOTS[name]

    def loss(M: Array, C: Array) -> Array:
        turn = lambda y, _: (step(root, y, C), None)
        return jnp.sum(C * jnp.sin(jax.lax.scan(turn, M, length=2)[0]))

    compute = lambda x, c, e: directional_second_derivatives(lambda M: loss(M, c))[
        mode
    ](x, e)
    return COMPILED_DERIVATIVES.setdefault((name, mode), jax.jit(compute))(x, c, e)


@pytest.mark.parametrize("kind", list(SINGULAR_VALUES))
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("one plus four", "forward over reverse"),
        ("positive", "reverse over reverse"),
        pytest.param("one plus four", "reverse over reverse", marks=slow),
        pytest.param("positive", "forward over reverse", marks=slow),
    ],
)
def test_roots_in_loops_have_second_derivatives(name: str, mode: str, kind: str):
    """At equal and at zero singular values, where decompositions have none."""
    rng = np.random.default_rng(7)
    values = np.array(SINGULAR_VALUES[kind])
    C, W = orthogonal(rng, 3), orthogonal(rng, 3)
    U, e = orthogonal(rng, 3), rng.normal(size=(3, 3))
    M = (U * values) @ W.T
    if name == "positive":
        M, e = (U * (values + 0.5)) @ U.T, e + e.T
    step, _, root = ROOTS[name]
    turn = lambda y: step(root, y, C)
    expected = second_difference(lambda y: np.sum(C * np.sin(turn(turn(y)))), M, e / 4)
    actual = second_derivative_of_root(name, mode, *map(jnp.asarray, (C, M, e / 4)))
    assert abs(float(actual) - expected) <= 1e-6 * max(1, abs(expected))


def test_energies_of_isotropic_gaussians_in_loops_have_second_derivatives():
    """Steps that move a covariance along its energy, from equal eigenvalues."""
    Q = np.diag([0.6, 0.6, 0.6])
    energy = SinkhornEnergy(Q, np.eye(3))
    e = np.array([[0.3, 0.1, 0.0], [0.1, -0.2, 0.2], [0.0, 0.2, 0.1]])
    step = lambda S, value: S + value * S @ S / 3

    def loss(S: Array) -> Array:
        turn = lambda T, _: (step(T, energy.value_on_gaussian(jnp.zeros(3), T)), None)
        return jnp.sum(jnp.sin(jax.lax.scan(turn, S, length=2)[0]))

    def reference(S: np.ndarray) -> float:
        for _ in range(2):
            S = step(S, sinkhorn_energy(Q, np.zeros(3), numpy_root(S)))
        return float(np.sum(np.sin(S)))

    second = jax.jit(directional_second_derivatives(loss)["forward over reverse"])
    expected = second_difference(reference, np.eye(3), e)
    assert abs(float(second(jnp.eye(3), jnp.asarray(e))) - expected) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reduction"),
    [("sinkhorn", Dense())]
    + [
        pytest.param(name, reduction, marks=slow)
        for name, reduction in [
            ("sinkhorn", Blocked(3)),
            ("softmax", Blocked(3)),
            ("l2", Blocked(3)),
            ("exp", Blocked(3)),
            ("relu", Blocked(3)),
            ("softmax", Chebyshev(1e-9, counts=(24, 24))),
        ]
    ],
)
def test_steps_of_tokens_have_second_derivatives(
    name: str, reduction: AbstractReduction
):
    """Two steps in a loop, against differences of complex steps."""
    rng = np.random.default_rng(3)
    Q, K, V = rng.normal(size=(3, 2, 2)) / np.sqrt(2)
    x, c, e = rng.normal(size=(3, 6, 2))
    w = rng.dirichlet(np.full(6, 3.0))
    head = Head(name, Q, K, V, 1.3)
    dynamics = attentions[name](Q, K, V, epsilon=1.3)
    if name == "sinkhorn":
        exact = Sinkhorn(tolerance=1e-14)
        dynamics = Attention(dynamics.score, exact, dynamics.value)

    def loss(x: Array) -> Array:
        def turn(y: Array, _: None) -> tuple[Array, None]:
            mu = Points(Tokens(y), jnp.asarray(np.log(w)), reduction)
            return y + 0.3 * dynamics.field(0.0, mu)(mu.tokens), None

        return jnp.sum(c * jnp.sin(jax.lax.scan(turn, x, length=2)[0]))

    def slope(x: np.ndarray) -> float:
        y = x + 1e-30j * e
        for _ in range(2):
            y = y + 0.3 * velocities(head, y, w)
        return float(np.sum(c * np.sin(y)).imag) / 1e-30

    h = 1e-3
    near, far = (slope(x + k * h * e) - slope(x - k * h * e) for k in (1, 2))
    expected = (8 * near - far) / (12 * h)
    for second in directional_second_derivatives(loss).values():
        actual = float(jax.jit(second)(jnp.asarray(x), jnp.asarray(e)))
        assert abs(actual - expected) <= 1e-8 * max(1, abs(expected))
