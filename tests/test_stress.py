"""Hard cases of the library against NumPy and SciPy; most of it is slow.

Flows may err by the tolerance of their steps times their number; the sensitivity to the
start is near one in all of these.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flow_cases import RTOL
from helpers import assert_close
from jaxtyping import Array
from scipy.integrate import solve_ivp
from stress_reference import (
    Head,
    integrate,
    interaction_energy,
    moments,
    sinkhorn_energy,
    velocities,
)

from meanfield.attention import Attention, attentions
from meanfield.dynamics import Heads, Layers, Sum, stack_trees
from meanfield.endings import Status
from meanfield.energies import energies
from meanfield.flows import Isotropic, Trajectory, adaptive, flow
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Chebyshev,
    Dense,
    Gaussian,
    Grid,
    Points,
    ScaledBox,
)
from meanfield.measures.edges import even_edges
from meanfield.theorems._ascents import adam, zero_moments
from meanfield.tokens import Tokens

SEED = 20261122
slow = pytest.mark.slow


def attention(head: Head) -> Attention:
    name = head.name.split(":")[0]
    options = {} if head.half_steps is None else {"iterations": head.half_steps}
    return attentions[name](*head[1:4], epsilon=head.epsilon, **options)


def matrices(
    rng: np.random.Generator, d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unrelated matrices Q, K, V."""
    Q, K, V = rng.normal(size=(3, d, d)) / np.sqrt(d)
    return Q, K, V


@pytest.mark.slow
@pytest.mark.parametrize("rank", [pytest.param(6, marks=slow), 2])
@pytest.mark.parametrize(
    "name",
    ["l2", "sinkhorn:5"]
    + [pytest.param(n, marks=slow) for n in ("relu", "softmax", "linear", "sinkhorn")]
    + [pytest.param(n, marks=slow) for n in ("linear-expansion", "sinkhorn:9")],
)
def test_gaussians_of_six_dimensions_at_small_bandwidths(name: str, rank: int):
    rng = np.random.default_rng(SEED)
    cases = []
    for epsilon in (1.0, 1e-1, 1e-2, 1e-3):
        head = Head(name, *matrices(rng, 6), epsilon)
        Y, alpha = rng.normal(size=(6, rank)) / np.sqrt(rank), rng.normal(size=6) / 4
        alpha = 0 * alpha if name == "relu" else alpha
        steep = np.linalg.norm(moments([head], alpha, Y, 1e-9)[1] - Y) / 1e-9
        cases.append((head, alpha, Y, 0.3 * np.linalg.norm(Y) / steep))

    def end(Q: Array, K: Array, V: Array, rest: tuple) -> Trajectory:
        epsilon, alpha, Y, t = rest
        head = Head(name, Q, K, V, epsilon)  # pyright: ignore[reportArgumentType]
        return flow(attention(head), Gaussian(alpha, Y), jnp.stack([0 * t, t]))

    rest = [(head.epsilon, alpha, Y, t) for head, alpha, Y, t in cases]
    stack = lambda column: jnp.asarray(np.array(column))
    heads = [stack(column) for column in zip(*(c[0][1:4] for c in cases), strict=True)]
    other_heads = tuple(stack(column) for column in zip(*rest, strict=True))
    ends = jax.jit(jax.vmap(end))(*heads, other_heads)
    assert np.all(ends.code == int(Status.FINISHED))
    for i, (head, alpha, Y, t) in enumerate(cases):
        mean, factor = moments([head], alpha, Y, t)
        size = np.sqrt(np.sum(mean**2) + np.sum(factor**2))
        gaps = ends.last[0][i] - mean, ends.last[1][i] - factor
        error = np.sqrt(sum(float(jnp.sum(gap**2)) for gap in gaps))
        assert error <= RTOL * int(ends.n_accepted[i]) * size


@slow
def test_a_sum_of_five_kinds_of_six_dimensions():
    rng = np.random.default_rng(SEED)
    names = ["softmax", "l2", "sinkhorn", "linear-expansion", "sinkhorn:5"]
    widths = [1.0, 0.1, 0.5, 0.7, 1.0]
    heads = [Head(n, *matrices(rng, 6), e) for n, e in zip(names, widths, strict=True)]
    alpha, Y = rng.normal(size=6) / 4, rng.normal(size=(6, 3)) / 3
    mu = Gaussian(jnp.asarray(alpha), jnp.asarray(Y))
    path = flow(Sum(*map(attention, heads)), mu, [0.0, 0.25])
    mean, factor = moments(heads, alpha, Y, 0.25)
    error = np.linalg.norm(path.last[1] - factor) + np.linalg.norm(path.last[0] - mean)
    assert error <= RTOL * int(path.n_accepted) * np.linalg.norm(factor)


@slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rtol", [None, 1e-3])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_blow_up_times_lie_within_their_error_bars(
    d: int, rtol: float | None, dtype: type
):
    """With V = I, 1 / t* is the largest eigenvalue of Y'(A + A')Y."""
    rng = np.random.default_rng(SEED + d)
    A, Y = rng.normal(size=(2, 60, d, d)).astype(dtype)
    H = (A + np.swapaxes(A, 1, 2)).astype(float)
    growth = np.linalg.eigvalsh(np.swapaxes(Y, 1, 2) @ H @ Y)[:, -1]
    A, Y, t_star = A[growth > 1e-3], Y[growth > 1e-3], 1 / growth[growth > 1e-3]

    def fate(A: Array, Y: Array, t: Array) -> Trajectory:
        eye = jnp.eye(d, dtype=dtype)
        mu, ts = Gaussian(jnp.zeros(d, dtype), Y), jnp.stack([0 * t, t])
        return flow(
            attentions["softmax"](A, eye, eye), mu, ts, stepping=adaptive(rtol=rtol)
        )

    ends = jax.jit(jax.vmap(fate))(A, Y, (2 * t_star).astype(dtype))
    assert np.all(ends.code == int(Status.BLOW_UP))
    inside = np.abs(np.asarray(ends.t_star) - t_star) <= np.asarray(ends.t_star_error)
    assert np.mean(inside) >= 0.98  # of about fifty: one may miss


@pytest.mark.parametrize(
    "name",
    ["l2", *(pytest.param(n, marks=slow) for n in ("softmax", "sinkhorn", "linear"))],
)
def test_tokens_under_heads_and_layers(name: str):
    rng = np.random.default_rng(SEED)
    layers = [[Head(name, *matrices(rng, 3), e) for e in (1.0, 0.6)] for _ in range(2)]
    x, w = rng.normal(size=(12, 3)), rng.dirichlet(np.full(12, 2.0))
    heads = [
        Heads(stack_trees([attention(head) for head in heads_of_layer]))
        for heads_of_layer in layers
    ]
    times = np.array([0.0, 0.12, 0.3])
    path = flow(Layers(times, stack_trees(heads)), Points.weighted(x, w), [0.0, 0.3])
    end = x
    for heads_of_layer, begin, stop in zip(layers, times[:-1], times[1:], strict=True):
        rates = lambda _, y, heads_of_layer=heads_of_layer: np.sum(
            [velocities(head, y.reshape(x.shape), w) for head in heads_of_layer], axis=0
        ).ravel()
        end = integrate(rates, end.ravel(), (begin, stop)).reshape(x.shape)
    error = np.max(np.abs(path.last - end))
    assert error <= RTOL * int(path.n_accepted) * np.max(np.abs(end))


def derivative(head: Head, x: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
    r"""The derivative of $\sum c \sin v(x)$ in the tokens, by complex steps."""
    actual = np.empty_like(x)
    for at in np.ndindex(*x.shape):
        perturbed = x.astype(complex)
        perturbed[at] += 1e-30j
        actual[at] = np.sum(c * np.sin(velocities(head, perturbed, w))).imag / 1e-30
    return actual


REDUCTIONS = {
    "dense": Dense(),
    "blocks": Blocked(5),
    "nodes": Chebyshev(1e-9, counts=(24, 24)),
}


@pytest.mark.parametrize(
    ("name", "reduction"),
    [("softmax", "blocks")]
    + [
        pytest.param(name, reduction, marks=slow)
        for name in ("softmax", "l2", "exp", "sinkhorn")
        for reduction in REDUCTIONS
        if (name, reduction) != ("softmax", "blocks")
    ],
)
def test_first_and_second_derivatives_of_fields(name: str, reduction: str):
    """The second, along one direction, against differences of the first."""
    rng = np.random.default_rng(SEED)
    head, how = Head(name, *matrices(rng, 2), 1.3), REDUCTIONS[reduction]
    x, c, along = rng.normal(size=(3, 8, 2))
    w = rng.dirichlet(np.full(8, 3.0))

    def loss(x: Array, how: AbstractReduction = how) -> Array:
        mu = Points(Tokens(x), jnp.asarray(np.log(w)), how)
        return jnp.sum(c * jnp.sin(attention(head).field(0.0, mu)(mu.tokens)))

    slope = jax.grad(loss)
    value_and_tangent = jax.jit(lambda x: jax.jvp(slope, (x,), (jnp.asarray(along),)))
    first, second = value_and_tangent(jnp.asarray(x))
    exact = lambda s: derivative(head, x + s * along, w, c)
    h = 1e-3  # fourth order: h⁴ of a sixth derivative
    expected = (8 * (exact(h) - exact(-h)) - (exact(2 * h) - exact(-2 * h))) / (12 * h)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(first, exact(0), atol=1e-9 * np.max(np.abs(exact(0))))
    np.testing.assert_allclose(second, expected, atol=1e-8 * scale)


@slow
@pytest.mark.parametrize("name", ["interaction", "interaction-l2", "sinkhorn"])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_energies_on_gaussians_in_three_dimensions(name: str, seed: int):
    """Closed forms by determinants and correlations; Richardson's differences."""
    rng = np.random.default_rng(SEED + seed)
    Q, K = rng.normal(size=(2, 3, 3)) / 4
    Y, Z = rng.normal(size=(2, 3, 3)) / 2
    alpha, beta = rng.normal(size=(2, 3)) / 2
    A, zero = K.T @ Q, np.zeros((3, 3))
    squares = -2 * np.block([[Q.T @ Q, -Q.T @ K], [-K.T @ Q, K.T @ K]])
    M = squares if name.endswith("l2") else np.block([[zero, A.T], [A, zero]])

    def energy_along(t: float) -> float:
        mean, factor = alpha + t * beta, Y + t * Z
        if name == "sinkhorn":
            return sinkhorn_energy(A, mean, factor)
        return interaction_energy(M, mean, factor @ factor.T)

    halves = [
        (energy_along(h) - energy_along(-h)) / (2 * h) for h in (1e-2, 5e-3, 2.5e-3)
    ]
    finer = [(4 * b - a) / 3 for a, b in itertools.pairwise(halves)]
    expected = (16 * finer[1] - finer[0]) / 15
    by_mean, by_covariance = energies[name](Q, K, np.eye(3)).moment_gradients(
        Gaussian(jnp.asarray(alpha), jnp.asarray(Y))
    )
    actual = by_mean @ beta + jnp.sum(by_covariance * (Y @ Z.T + Z @ Y.T))
    assert abs(float(actual) - expected) <= 1e-9 * max(1, abs(expected))


@slow
@pytest.mark.parametrize("name", ["softmax", "linear"])
def test_plane_densities_with_noise_have_the_moments_of_gaussians(name: str):
    """Second order in the cells, with a mean and non-commuting matrices."""
    Q, K = np.array([[0.7, 0.2], [-0.1, 0.5]]), -np.array([[0.6, 0.1], [0.2, 0.8]])
    V, kappa, t = np.array([[0.9, 0.2], [0.0, 0.7]]), 0.2, 0.4
    m, S = np.array([0.3, -0.2]), np.array([[1.0, 0.3], [0.3, 0.7]])

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        a, s = y[:2], y[2:].reshape(2, 2)
        M = s + np.outer(a, a) if name == "linear" else s
        L = V @ M @ K.T @ Q
        velocity = L @ a if name == "linear" else L @ a + V @ a
        return np.concatenate(
            [velocity, (L @ s + s @ L.T + 2 * kappa * np.eye(2)).ravel()]
        )

    end = solve_ivp(
        rates, (0, t), np.concatenate([m, S.ravel()]), rtol=1e-10, atol=1e-12
    )
    expected, errors = end.y[2:, -1].reshape(2, 2), []
    P, mass = np.linalg.inv(S), 2 * np.pi * np.sqrt(np.linalg.det(S))
    normal = lambda x: np.exp(-np.einsum("ni,ij,nj->n", x - m, P, x - m) / 2) / mass
    for cells in (32, 64):
        grid = Grid.from_function(
            [even_edges(-6.5, 6.5, cells)] * 2, normal, box=ScaledBox()
        )
        path = flow(attentions[name](Q, K, V), grid, [0.0, t], noise=Isotropic(kappa))
        gap = np.linalg.norm(path.final.covariance - expected)
        errors.append(gap / np.linalg.norm(expected))
    assert np.log2(errors[0] / errors[1]) > 1.8
    assert errors[1] < 1e-3


@pytest.mark.slow
def test_adam_has_the_iterates_of_optax():
    """In ascents: 200 steps down a curved valley, from many starts."""
    slope = jax.vmap(jax.grad(lambda x: jnp.sum(x**4) - jnp.prod(jnp.cos(x))))
    x = y = jax.random.normal(jax.random.key(SEED), (12, 5))
    reference = optax.adam(0.05)
    moments, state = zero_moments(x), reference.init(y)
    for _ in range(200):
        move, moments = adam(slope(x), moments, 0.05)
        updates, state = reference.update(slope(y), state)
        x, y = x + move, jnp.add(y, jnp.asarray(updates))
        assert_close(x, y)
