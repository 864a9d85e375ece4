"""Derivatives through flows, against central differences."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diffrax import DirectAdjoint, ForwardMode
from flow_cases import RTOL
from helpers import assert_close
from jaxtyping import Array
from scipy.integrate import solve_ivp

from meanfield.attention import attentions
from meanfield.dynamics import Drift, stack_trees
from meanfield.errors import SimulationError
from meanfield.flows import adaptive, ensemble, flow
from meanfield.measures import Gaussian, Points


def assert_gradient(fn: Callable, at: Array, *, h: float = 1e-4) -> None:
    """Reverse mode against a fourth-order difference, along three directions.

    Truncation is h^4; the solver's error is smooth in the parameters only to RTOL,
    which divided by h bounds the agreement.
    """
    value_and_grad = jax.jit(jax.value_and_grad(fn))
    gradient = value_and_grad(at)[1]
    assert jnp.all(jnp.isfinite(gradient))
    rng = np.random.default_rng(3)
    for _ in range(3):
        along = jnp.asarray(rng.normal(size=at.shape))
        f = lambda s, along=along: float(value_and_grad(at + s * h * along)[0])
        slope = (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * h)
        actual = float(jnp.sum(gradient * along))
        assert abs(actual - slope) <= 10 * RTOL / h * max(1, abs(slope))


WEIGHTS = jnp.array([[0.3, -1.0], [0.7, 0.2]])


def moment_sum(mu: Points | Gaussian) -> Array:
    """A number that depends on mean and covariance."""
    return jnp.sum(WEIGHTS * mu.covariance) + mu.mean[0] - 2 * mu.mean[1]


def score_matrix(rng: np.random.Generator) -> Array:
    return jnp.asarray(rng.normal(size=(2, 2)) / 2)


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(n, marks=pytest.mark.slow) for n in ("softmax", "l2")), "sinkhorn"],
)
def test_gradients_of_a_gaussian_flow(name: str, rng: np.random.Generator):
    """In A and in the start, at an isotropic Gaussian made from its moments."""

    def end(arguments: Array) -> Array:
        attention = attentions[name](arguments[:2], jnp.eye(2), jnp.eye(2))
        Sigma = (arguments[2:] + arguments[2:].T) / 2
        mu = Gaussian.from_moments(jnp.array([0.3, -0.2]), Sigma)
        return moment_sum(flow(attention, mu, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.concatenate([score_matrix(rng), jnp.eye(2)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["softmax", pytest.param("sinkhorn", marks=pytest.mark.slow)]
)
def test_gradients_at_a_singular_covariance(name: str, rng: np.random.Generator):
    """In the factor: the set of covariances has a boundary there."""
    attention = attentions[name](score_matrix(rng), jnp.eye(2), jnp.eye(2))

    def end(Y: Array) -> Array:
        mu = Gaussian(jnp.array([0.3, -0.2]), Y)
        return moment_sum(flow(attention, mu, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.array([[1.0, 0.0], [0.5, 0.0]]))


@pytest.mark.parametrize(
    "name", ["softmax", pytest.param("sinkhorn", marks=pytest.mark.slow)]
)
def test_gradients_of_a_flow_of_points(name: str, rng: np.random.Generator):
    A, x = score_matrix(rng), jnp.asarray(rng.normal(size=(6, 2)))

    def end(arguments: Array) -> Array:
        attention = attentions[name](arguments[:2], jnp.eye(2), jnp.eye(2))
        cloud = Points.uniform(arguments[2:])
        return moment_sum(flow(attention, cloud, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.concatenate([A, x]))


@pytest.mark.slow
def test_forward_mode_agrees_with_reverse_mode(rng: np.random.Generator):
    A = score_matrix(rng)
    mu = Gaussian(jnp.array([0.3, -0.2]), jnp.eye(2))
    make = lambda A: attentions["softmax"](A, jnp.eye(2), jnp.eye(2))
    times = jnp.array([0.0, 0.3])
    along = jnp.ones((2, 2))
    end = lambda adjoint: (
        lambda A: moment_sum(flow(make(A), mu, times, adjoint=adjoint).final)
    )
    forward = jax.jit(lambda A: jax.jvp(end(ForwardMode()), (A,), (along,))[1])
    reverse = jax.jit(jax.grad(end(None)))
    assert_close(forward(A), jnp.sum(along * reverse(A)), ulps=1e5)


@pytest.mark.slow
def test_gradients_of_a_sinkhorn_flow_at_a_small_bandwidth():
    """Seven weighted tokens beyond alternation: reverse mode against differences."""
    rng, epsilon = np.random.default_rng(3), 0.05
    x, w = jnp.asarray(rng.normal(size=(7, 2))), rng.random(7) + 0.2
    Q, K, V = rng.normal(size=(3, 2, 2)) * np.array([1, 1, epsilon])[:, None, None]
    attention = attentions["sinkhorn"](Q, K, V, epsilon=epsilon)
    c = jnp.asarray(rng.normal(size=(7, 2)))

    def end(x: Array) -> Array:
        mu = Points.weighted(x, w / w.sum())
        return jnp.sum(c * flow(attention, mu, jnp.array([0.0, 0.1])).final.tokens.x)

    assert_gradient(end, x, h=1e-5)


def test_a_derivative_of_a_flow_that_failed_raises():
    """It would be a derivative at another time than requested."""
    drift, two_steps = Drift(-jnp.eye(1)), adaptive(max_steps=2)

    def end(mean: Array) -> Array:
        mu = Gaussian(mean, jnp.eye(1))
        return jnp.sum(flow(drift, mu, [0.0, 9.0], stepping=two_steps).final.mean)

    at = jnp.ones(1)
    assert jnp.isfinite(jax.jit(end)(at))
    with pytest.raises(SimulationError, match="max-steps"):
        jax.grad(end)(at)
    with pytest.raises(RuntimeError, match="flow that failed"):
        eqx.filter_jit(jax.grad(end))(at)


@pytest.mark.slow
def test_derivatives_in_the_times_of_frames_are_velocities():
    """v(t) for an inner frame and the last; minus the velocity at the start."""
    softmax = attentions["softmax"](-jnp.eye(1), jnp.eye(1), jnp.eye(1))
    mu = Gaussian(jnp.zeros(1), jnp.eye(1))
    times = jnp.array([0.0, 3.0, 7.0])
    sum_of_frames = lambda ts: times @ flow(softmax, mu, ts).covariance[:, 0, 0]
    actual = jax.jit(jax.grad(sum_of_frames))(jnp.array([0.0, 0.5, 1.0]))
    rate = lambda t: -2 / (1 + 2 * t) ** 2  # of 1/(1 + 2t)
    inner, last = 3 * rate(0.5), 7 * rate(1.0)
    # Frames are interpolated: the slope of the interpolant is off by a few rtol / dt.
    np.testing.assert_allclose(actual, [-inner - last, inner, last], atol=3e-6)


def test_a_flow_without_nan_runs_under_debug_nans():
    """Untaken branches compute no NaN; missing values still read as NaN."""
    softmax = attentions["softmax"](-jnp.eye(1), jnp.eye(1), jnp.eye(1))
    mu = Gaussian(jnp.zeros(1), jnp.eye(1))
    with jax.debug_nans(True):
        run = flow(softmax, mu, [0.0, 1.0])
        members = ensemble(softmax, stack_trees([mu, mu]), [0.0, 1.0])
        blow_up = members.t_star, run.t_star, run.t_star_error, *run.predicted_blow_up
        point = flow(softmax, Gaussian(jnp.zeros(1), jnp.zeros((1, 1))), [0.0, 1.0])
    assert all(np.all(np.isnan(part)) for part in blow_up)
    assert_close(run.final.covariance, jnp.eye(1) / 3, ulps=1e7)
    assert str(point.status) == "finished"


def test_second_derivatives_of_a_flow_match_differences() -> None:
    x = np.linspace(-1.0, 2.0, 5)[:, None]

    def loss(a: Array) -> Array:
        attention = attentions["softmax"](A=a, d=1)
        start, adjoint = Points.uniform(x), DirectAdjoint()
        run = flow(attention, start, [0.0, 0.5], adjoint=adjoint)
        return jnp.sum(run.final.tokens.x**2)

    def reference(a: float) -> float:
        def velocity(_: float, y: np.ndarray) -> np.ndarray:
            weights = np.exp(a * np.outer(y, y))
            return weights @ y / weights.sum(axis=1)

        run = solve_ivp(velocity, (0, 0.5), x[:, 0], rtol=1e-12, atol=1e-12)
        return float(np.sum(run.y[:, -1] ** 2))

    h = 1e-3
    difference = (reference(h - 1) - 2 * reference(-1) + reference(-h - 1)) / h**2
    second = float(jax.jacfwd(jax.grad(loss))(jnp.asarray(-1.0)))
    assert second == pytest.approx(difference, rel=1e-5)
