"""Anderson acceleration: convergence, counts, and reports of failure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import orthogonal

from meanfield.fixed_point import FixedPoint, anderson


def linear(
    rng: np.random.Generator, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    U = orthogonal(rng, len(values))
    return (U * values) @ U.T, rng.normal(size=len(values))


def solve(M: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> FixedPoint:
    fn = lambda x: jnp.asarray(M) @ x + jnp.asarray(b)
    start = jnp.zeros(len(b))
    return jax.jit(
        lambda x: anderson(fn, x, tolerance=tolerance, max_evaluations=limit)
    )(start)


def test_linear_maps_reach_their_fixed_point(rng: np.random.Generator):
    M, b = linear(rng, rng.uniform(-0.9, 0.9, size=30))
    actual = solve(M, b, 1e-12, 200)
    exact = np.linalg.solve(np.eye(30) - M, b)
    assert actual.residual <= 1e-12
    # The residual bounds the error by 1 / (1 - 0.9), in another norm.
    assert np.max(np.abs(actual.point - exact)) < 1e-10
    plain = np.ceil(np.log(1e-12) / np.log(0.9))
    assert int(actual.evaluations) < plain / 3  # it accelerates


def test_three_dimensions_take_four_mixings(rng: np.random.Generator):
    """In dimension d, Anderson with d + 1 points is exact on linear maps."""
    M, b = linear(rng, np.array([0.99, 0.5, -0.8]))
    assert int(solve(M, b, 1e-11, 50).evaluations) <= 8


def test_a_start_at_the_fixed_point_takes_one_evaluation():
    actual = solve(0.5 * np.eye(2), np.zeros(2), 1e-14, 50)
    assert int(actual.evaluations) == 1
    assert float(actual.residual) == 0


def test_an_expanding_map_is_reported():
    actual = solve(np.array([[0.0, -30.0], [30.0, 0.0]]), np.ones(2), 1e-30, 7)
    assert int(actual.evaluations) == 7
    assert actual.residual > 1e-30
    assert np.all(np.isfinite(actual.point))


def test_the_best_point_is_the_one_returned(rng: np.random.Generator):
    M, b = linear(rng, rng.uniform(0.9, 0.999, size=40))
    for limit in (3, 10, 30):
        actual = solve(M, b, 0.0, limit)
        residual = np.max(np.abs(M @ actual.point + b - actual.point))
        assert abs(residual - float(actual.residual)) < 1e-12


def test_a_map_that_breaks_ends_the_iteration():
    fn = lambda x: jnp.where(jnp.max(x) > 0.5, jnp.nan, x + 0.3)
    actual = anderson(fn, jnp.zeros(2), tolerance=1e-10, max_evaluations=100)
    assert int(actual.evaluations) < 100
    assert not actual.residual <= 1e-10


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_dtype_is_kept(dtype: type):
    actual = anderson(
        lambda x: jnp.cos(x), jnp.zeros(3, dtype), tolerance=1e-6, max_evaluations=50
    )
    assert actual.point.dtype == dtype
    assert abs(float(actual.point[0]) - 0.7390851) < 1e-5


def test_members_of_a_batch_stop_on_their_own():
    rates = jnp.array([0.0, 0.5, 0.99])

    def run(rate: jax.Array) -> FixedPoint:
        fn = lambda x: rate * jnp.sin(x) + 1
        return anderson(fn, jnp.zeros(2), tolerance=1e-12, max_evaluations=100)

    batched = jax.jit(jax.vmap(run))(rates)
    for i in range(3):
        single = jax.jit(run)(rates[i])
        assert int(single.evaluations) == int(batched.evaluations[i])
        assert np.max(np.abs(single.point - batched.point[i])) < 1e-11


def test_a_residual_that_stops_falling_ends_the_iteration(rng: np.random.Generator):
    """It creeps: no tenfold reduction in that many evaluations."""
    M, b = linear(rng, np.concatenate([np.linspace(0.99, 0.9999, 40)]))
    fn = lambda x: jnp.asarray(M) @ x + jnp.asarray(b)
    run = lambda patience: anderson(
        fn, jnp.zeros(40), tolerance=1e-14, max_evaluations=500, patience=patience
    )
    result = jax.jit(lambda: run(10))()
    assert 10 < int(result.evaluations) < 500
    assert result.residual > 1e-14
    assert int(jax.jit(lambda: run(None))().evaluations) > int(result.evaluations)
