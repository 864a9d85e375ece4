"""Results of an accelerator against those of the processor; skipped without one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_gaussian_variant, every_variant, ulps

from meanfield import Blocked, Dense, Gaussian, Grid, Points, attentions, flow, sums
from meanfield.measures.edges import even_edges

pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="there is no accelerator"
)
EPS = np.finfo(np.float64).eps
D = 3


def run_on_processor(fn: Callable[[], Any]) -> Any:
    """The result of `fn` on the processor."""
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree.map(np.asarray, fn())


def run_on_accelerator(fn: Callable[[], Any]) -> Any:
    """The result of `fn` on the default device."""
    results = fn()
    arrays = [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)]
    assert all(leaf.devices() == {jax.devices()[0]} for leaf in arrays)
    return jax.tree.map(np.asarray, results)


def deviation(ours: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.abs(ours - reference).max() / np.abs(reference).max())


def matrices(dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [(np.eye(D) + 0.3 * rng.normal(size=(D, D))).astype(dtype) for _ in range(3)]


def cloud(n: int, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(n, D)).astype(dtype)


def velocities(name: str, n: int, dtype: type = np.float64) -> Callable[[], jax.Array]:
    def compute() -> jax.Array:
        mu = Points.uniform(jnp.asarray(cloud(n, dtype)))
        attention = attentions[name](*map(jnp.asarray, matrices(dtype)))
        return attention.field(0.0, mu)(mu.tokens)

    return compute


@every_variant
def test_velocities_of_tokens(name: str) -> None:
    compute = velocities(name, 300)
    actual, expected = run_on_accelerator(compute), run_on_processor(compute)
    assert deviation(actual, expected) < ulps(name, 3000) * EPS


@every_variant
def test_single_precision_keeps_its_digits(name: str) -> None:
    """Products rounded to TF32 would be off by 1e-3."""
    single = run_on_accelerator(
        lambda: eqx.filter_jit(velocities(name, 300, np.float32))()
    )
    expected = run_on_processor(velocities(name, 300))
    assert single.dtype == np.float32
    assert deviation(single, expected) < (3e-3 if name == "esp" else 5e-5)


@every_gaussian_variant
def test_velocities_of_gaussians(name: str) -> None:
    def compute() -> Any:
        rng = np.random.default_rng(3)
        mean = np.zeros(D) if name == "relu" else rng.normal(size=D)
        mu = Gaussian(jnp.asarray(mean), 0.3 * jnp.eye(D))
        attention = attentions[name](*map(jnp.asarray, matrices()))
        leaves = jax.tree.leaves(mu.transport(attention.field(0.0, mu)))
        return jnp.concatenate([leaf.ravel() for leaf in leaves])

    assert (
        deviation(run_on_accelerator(compute), run_on_processor(compute))
        < ulps(name, 3000) * EPS
    )


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn", "sigmoid", "linear"])
def test_flows_of_tokens(name: str) -> None:
    def compute() -> jax.Array:
        Q, K, V = map(jnp.asarray, matrices())
        attention = attentions[name](Q, -K, 0.5 * V)
        mu = Points.uniform(jnp.asarray(cloud(100)))
        return flow(attention, mu, [0.0, 1.0]).last

    assert deviation(run_on_accelerator(compute), run_on_processor(compute)) < 1e-8


def test_a_blow_up_of_a_gaussian() -> None:
    def compute() -> jax.Array:
        identity = jnp.eye(2)
        mu = Gaussian(jnp.zeros(2), jnp.eye(2))
        return flow(
            attentions["softmax"](identity, identity, identity), mu, [0.0, 2.0]
        ).t_star

    assert run_on_accelerator(compute) == pytest.approx(0.5, rel=1e-6)


def test_a_density_on_a_grid() -> None:
    def compute() -> jax.Array:
        identity = jnp.eye(2)
        normal = lambda x: np.exp(-0.5 * np.sum(x**2, axis=-1)) / (2 * np.pi)
        mu = Grid.from_function([even_edges(-6, 6, 32)] * 2, normal)
        trajectory = flow(
            attentions["softmax"](identity, -identity, identity), mu, [0.0, 0.3]
        )
        return jax.tree.leaves(trajectory.last)[0]

    assert deviation(run_on_accelerator(compute), run_on_processor(compute)) < 1e-10


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", [Blocked(), Blocked(128), Dense()])
def test_sums_over_all_pairs(how: Blocked | Dense, dtype: type) -> None:
    n = 9000 if isinstance(how, Blocked) and how.size is None else 700
    x = cloud(n, dtype)
    mu = Points.uniform(jnp.asarray(x), reduction=how)
    identity = jnp.eye(D, dtype=dtype)
    ours = np.asarray(
        attentions["softmax"](identity, identity, identity).field(0.0, mu)(mu.tokens)
    )
    x = x.astype(float)
    scores = x[:200] @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    means = weights @ x / weights.sum(axis=1, keepdims=True)
    assert deviation(ours[:200], means) < (1e-12 if dtype == np.float64 else 1e-5)


def test_gradients_through_a_flow() -> None:
    def compute() -> jax.Array:
        Q, K, V = map(jnp.asarray, matrices())
        x = jnp.asarray(cloud(40))

        def squares(x: jax.Array) -> jax.Array:
            softmax = attentions["softmax"](Q, -K, 0.5 * V)
            last = flow(softmax, Points.uniform(x), [0.0, 0.5]).last
            return jnp.sum(last**2)

        return jax.grad(squares)(x)

    assert deviation(run_on_accelerator(compute), run_on_processor(compute)) < 1e-7


def test_sums_in_cells_keep_their_bound() -> None:
    x = cloud(20_000)
    cells = sums.plan(x, x, tolerance=1e-6)
    means = run_on_accelerator(lambda: sums.tilted_mean(x, x, x, reduction=cells))[:500]
    scores = x[:500] @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ x / weights.sum(axis=1, keepdims=True)
    assert deviation(np.asarray(means), expected) < 1e-6
