"""Endings of flows: at rest, out of steps, exploded; and their frames."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import RTOL, centred_gaussian, scalar_attention
from helpers import assert_close, case, gaussian
from reference import Parameters, velocity
from scipy.integrate import solve_ivp

from meanfield.attention import Attention, Softmax, attentions
from meanfield.dynamics import Drift, Layers, stack_trees
from meanfield.endings import Status
from meanfield.errors import SimulationError
from meanfield.flows import AbstractStepping, BlowUp, Steady, adaptive, fixed, flow
from meanfield.measures import Gaussian, Points
from meanfield.scores import Dot


def linear_drift(V: object) -> Attention:
    """One token under softmax attention obeys x' = Vx."""
    V = jnp.atleast_2d(jnp.asarray(V, float))
    zero = jnp.zeros_like(V)
    return Attention(Dot(zero, zero), Softmax(), V)


@pytest.mark.slow_cases("0.001")
@pytest.mark.parametrize("rtol", [1e-3, 1e-8])
def test_steady_stops_within_its_tolerance(rtol: float):
    start = Points.uniform([[3.0, -4.0]])
    drift = linear_drift([[-1.0, 0.0], [0.0, -3.0]])
    trajectory = flow(drift, start, [0.0, 1e4], stop=Steady(rtol))
    distance = float(jnp.max(jnp.abs(trajectory.last)))  # of rest, which is 0
    assert trajectory.status == Status.STEADY
    assert distance <= 5 * rtol  # 5 is the initial size
    assert distance >= 1e-4 * 5 * rtol  # and it stops soon


def test_frames_before_an_early_end_are_states_at_their_times():
    """x' = x until it passes 3; later frames repeat the end."""
    ts = np.linspace(0.0, 2.0, 21)
    start = Points.uniform([[1.0]])
    trajectory = flow(linear_drift([[1.0]]), start, ts, stop=BlowUp(3.0))
    x, n = np.ravel(trajectory.coordinates), int(trajectory.n_saved)
    assert 1.0 < ts[n - 1] <= float(trajectory.stop_time) < ts[n]
    np.testing.assert_allclose(x[:n], np.exp(ts[:n]), rtol=1e-7)
    np.testing.assert_array_equal(x[n:], float(trajectory.last[0, 0]))
    assert x[-1] > 3.0


@pytest.mark.parametrize("size", [2.0**-30, 2.0**30])
def test_rest_does_not_depend_on_the_unit_of_length(size: float):
    """The remaining distance is relative to the initial size; powers of 2 are exact."""
    drift = linear_drift([[-1.0, 0.0], [0.0, -3.0]])
    starts = (Points.uniform(s * np.array([[3.0, -4.0]])) for s in (1.0, size))
    first, second = (flow(drift, mu, [0.0, 1e4], stop=Steady(1e-5)) for mu in starts)
    assert first.status == second.status == Status.STEADY
    assert float(second.stop_time) == float(first.stop_time)


@pytest.mark.parametrize("size", [2.0**-30, 2.0**30])
def test_a_start_that_hardly_moves_is_at_rest_in_any_unit(size: float):
    """Moves by 1e-16 of its size in the whole time: rounding."""
    drift = linear_drift([[-1e-20]])
    start = Points.uniform([[size]])
    assert flow(drift, start, [0.0, 1e4], stop=Steady()).status == Status.STEADY
    faster = flow(linear_drift([[1e-7]]), start, [0.0, 1e4], stop=Steady())
    assert faster.status == Status.FINISHED


@pytest.mark.slow
def test_steady_finds_the_limit_of_attention(rng: np.random.Generator):
    """castin2025, Prop. 4.4: with V = I and A negative definite all tends to zero."""
    mu = gaussian(rng, 2, mean=False)
    attention = attentions["l2"](-np.eye(2), np.eye(2), np.eye(2))
    trajectory = flow(attention, mu, [0.0, 1e12], stop=Steady(1e-4))
    assert trajectory.status == Status.STEADY
    left = float(trajectory.final.norm(trajectory.last))
    assert left <= 1e-4 * float(mu.norm(mu.coordinates))


def test_slow_accelerating_motion_is_not_rest():
    """Near a saddle the speed is tiny, a tenth of rtol, but it is not at rest."""
    start = Points.uniform([[1.0, 1e-7]])
    drift = linear_drift([[0.0, 0.0], [0.0, 0.1]])
    trajectory = flow(drift, start, [0.0, 200.0], stop=Steady(1e-6))
    assert trajectory.status == Status.FINISHED
    # Errors of the first steps, 4e-11 of the size each, grow with the creep itself.
    assert abs(trajectory.last[0, 1] / (1e-7 * np.exp(20)) - 1) < 0.01


def test_slow_constant_motion_is_not_rest():
    start = Points.uniform([[1.0, 0.0]])
    zero = jnp.zeros((2, 2))
    drift = Attention(Dot(zero, zero), Softmax(), zero, jnp.array([0.0, 1e-9]))
    trajectory = flow(drift, start, [0.0, 1e6], stop=Steady(1e-6))
    assert trajectory.status == Status.FINISHED
    assert_close(trajectory.last[0, 1], 1e-3, ulps=1e7)  # RTOL for each step


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("power", [2, 3])
def test_algebraic_decay_stops_near_its_limit(power: int):
    """The spread of softmax falls like t^(-1/2) in dimension one; so does its rate."""
    trajectory = flow(
        scalar_attention(-1.0, 1.0),
        centred_gaussian(2.0),
        [0.0, 1e9],
        stop=Steady(10.0**-power),
    )
    assert trajectory.status == Status.STEADY
    left = float(trajectory.last[1][0, 0])
    # Halves of a window are as coarse as its steps: a tenth in the exponent.
    assert 0.1 * 10.0**-power * np.sqrt(2) < left <= 10.0**-power * np.sqrt(2)


@pytest.mark.parametrize("x", [[[0.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [2.0, 0.0]]])
def test_a_start_at_rest_is_steady(x: list):
    drift = linear_drift([[0.0, 0.0], [0.0, -1.0]])
    trajectory = flow(drift, Points.uniform(x), [0.0, 1e6], stop=Steady())
    assert trajectory.status == Status.STEADY
    assert_close(trajectory.last, jnp.asarray(x))


def test_a_pause_before_the_last_layer_is_not_rest():
    """Decay by 30 e-folds, then growth by 20: rest in the first layer is no rest."""
    members = [linear_drift([[v]]) for v in (-1.0, 20.0)]
    layers = Layers([0.0, 30.0, 31.0], stack_trees(members))
    trajectory = flow(layers, Points.uniform([[1.0]]), [0.0, 31.0], stop=Steady())
    assert trajectory.status == Status.FINISHED
    assert float(trajectory.stop_time) == 31.0


def test_a_fixed_step_that_explodes_keeps_the_last_good_state():
    """Each step multiplies by 1e29, and the sixth square overflows."""
    cloud = Points.uniform([[1.0], [2.0]])
    times = np.linspace(0.0, 5.0, 11)
    drift = Drift([[1e30]])
    trajectory = flow(drift, cloud, times, stepping=fixed(0.1))
    assert trajectory.status == Status.NOT_FINITE
    assert jnp.all(jnp.isfinite(trajectory.final.covariance))
    assert jnp.all(jnp.isfinite(trajectory.coordinates))
    n_saved = int(trajectory.n_saved)
    assert 1 <= n_saved < len(times)
    assert times[n_saved - 1] <= trajectory.stop_time + 1e-12 < times[n_saved] + 1e-12
    for i in range(n_saved, len(times)):
        assert_close(trajectory.coordinates[i], trajectory.last, ulps=0)
    with pytest.raises(SimulationError, match="not-finite") as failure:
        trajectory.raise_for_status()
    assert "\n" not in str(failure.value)


def test_a_blow_up_slower_than_any_power_is_found_too():
    """One token under exp attention: x' = x e^{x^2} grows like the root of a log."""
    attention = scalar_attention(1.0, 1.0, name="exp")
    trajectory = flow(attention, Points.uniform([[1.0]]), [0.0, 0.1, 1.0])
    assert trajectory.status == Status.BLOW_UP
    assert jnp.all(jnp.isfinite(trajectory.last))
    # x' = x e^{x^2}: t = (E1(1) - E1(x^2)) / 2 ends at E1(1) / 2 = 0.1097.
    exact = 0.109691967197760  # half of scipy.special.exp1(1)
    assert abs(float(trajectory.t_star) - exact) < 1e-8
    assert int(trajectory.n_saved) == 2


def test_running_out_of_steps_is_reported():
    trajectory = flow(
        scalar_attention(-1.0, 1.0),
        centred_gaussian(2.0),
        [0.0, 0.01, 10.0],
        stepping=adaptive(max_steps=10),
    )
    assert trajectory.status == Status.MAX_STEPS
    assert int(trajectory.n_accepted) + int(trajectory.n_rejected) == 10
    assert 0 < trajectory.stop_time < 10
    exact = 1 / (0.5 + 2 * float(trajectory.stop_time))
    assert abs(float(trajectory.final.covariance[0, 0]) - exact) < 1e-8
    with pytest.raises(SimulationError, match="max-steps"):
        trajectory.raise_for_status()


def test_frames_are_states_at_their_times(rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    times = [0.0, 0.1, 0.1, 0.25]
    trajectory = flow(c.attention("softmax"), c.points(), times)
    assert int(trajectory.n_saved) == 4
    assert_close(trajectory.coordinates[0], c.x, ulps=0)
    assert_close(trajectory.coordinates[2], trajectory.coordinates[1], ulps=0)
    short = flow(c.attention("softmax"), c.points(), [0.0, 0.1])
    # The interpolant of Tsit5 has order four: a hundred times its step error is room.
    assert_close(trajectory.coordinates[1], short.last, ulps=100 * RTOL / 2.2e-16)
    assert_close(trajectory.coordinates[3], trajectory.last)
    means = trajectory.map(lambda mu: mu.mean)
    assert means.shape == (4, 2)


@pytest.mark.slow_cases("fixed")
@pytest.mark.parametrize(
    "stepping", [adaptive(), fixed(0.1)], ids=["adaptive", "fixed"]
)
def test_a_single_time_returns_the_start(stepping: AbstractStepping):
    trajectory = flow(
        scalar_attention(-1.0, 1.0), centred_gaussian(2.0), [1.5], stepping=stepping
    )
    assert trajectory.status == Status.FINISHED
    assert int(trajectory.n_saved) == 1
    assert_close(trajectory.frame(0).covariance, [[2.0]])
    assert_close(trajectory.final.covariance, [[2.0]])
    assert float(trajectory.stop_time) == 1.5


@pytest.mark.slow_cases("sinkhorn")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "sigmoid"])
def test_one_token_in_one_dimension(name: str):
    attention = attentions[name]([[0.5]], [[1.0]], [[-1.0]])
    trajectory = flow(attention, Points.uniform([[0.7]]), [0.0, 0.5])
    assert trajectory.status == Status.FINISHED
    p = Parameters(np.array([[0.5]]), np.eye(1), -np.eye(1))
    ones = np.ones(1)
    rate = lambda _, x: velocity(name, p, x[:, None], x[:, None], ones)[:, 0]
    end = solve_ivp(rate, (0, 0.5), [0.7], method="DOP853", rtol=1e-12, atol=1e-13)
    assert np.max(np.abs(trajectory.last[0] - end.y[:, -1])) < 1e-8


@pytest.mark.parametrize(
    "name", ["softmax", pytest.param("sinkhorn", marks=pytest.mark.slow)]
)
def test_all_tokens_at_the_origin(name: str):
    """A start of size zero gives no scale for tolerances."""
    attention = attentions[name](np.eye(2), np.eye(2), np.eye(2))
    for mu in (
        Points.uniform(np.zeros((3, 2))),
        Gaussian(jnp.zeros(2), jnp.zeros((2, 2))),
    ):
        trajectory = flow(attention, mu, [0.0, 1.0])
        assert trajectory.status == Status.FINISHED
        assert all(not np.any(leaf) for leaf in jax.tree.leaves(trajectory.last))


def test_a_start_at_the_origin_that_is_pushed_away():
    zero = jnp.zeros((2, 2))
    push = Attention(Dot(zero, zero), Softmax(), -jnp.eye(2), jnp.array([1.0, -2.0]))
    trajectory = flow(push, Points.uniform(np.zeros((1, 2))), [0.0, 1.0])
    expected = (1 - np.exp(-1.0)) * np.array([[1.0, -2.0]])
    assert trajectory.status == Status.FINISHED
    assert np.max(np.abs(trajectory.last - expected)) < 1e-8


def test_a_stiff_flow_needs_few_implicit_steps():
    """Rates of 1 and 1e5: an explicit method needs 3e4 steps for stability."""
    drift = linear_drift(np.diag([-1.0, -1e5]))
    start = Points.uniform([[1.0, 1.0]])
    trajectory = flow(
        drift, start, [0.0, 1.0], stepping=adaptive("kvaerno5", rtol=1e-8)
    )
    assert trajectory.status == Status.FINISHED
    assert int(trajectory.n_accepted) < 500
    assert np.max(np.abs(trajectory.last - np.array([[np.exp(-1.0), 0.0]]))) < 1e-6


def test_single_precision_stays_single():
    mu = centred_gaussian(2.0, np.float32)
    attention = scalar_attention(jnp.float32(-1.0), jnp.float32(1.0))
    trajectory = flow(attention, mu, jnp.array([0.0, 10.0], jnp.float32))
    assert trajectory.last[1].dtype == jnp.float32
    assert abs(float(trajectory.final.covariance[0, 0]) - 2 / 41) < 1e-5
    growing = flow(
        scalar_attention(jnp.float32(1.0), jnp.float32(1.0)), mu, [0.0, 10.0]
    )
    assert growing.status == Status.BLOW_UP
    assert abs(float(growing.t_star) - 0.25) <= min(1e-3, float(growing.t_star_error))


@pytest.mark.slow
def test_a_gaussian_flow_that_fails_has_values_but_no_derivative():
    """At its stopping point, s = 1 / (1/s₀ - 2t)."""

    def end(s0: jax.Array) -> tuple[jax.Array, jax.Array]:
        limited = adaptive(max_steps=4)
        actual = flow(
            scalar_attention(1.0, 1.0),
            centred_gaussian(s0),
            [0.0, 10.0],
            stepping=limited,
        )
        return actual.final.covariance[0, 0], actual.stop_time

    s, t = end(jnp.asarray(2.0))
    assert abs(s * (0.5 - 2 * t) - 1) < 1e-6
    with pytest.raises(SimulationError, match="max-steps"):
        jax.grad(end, has_aux=True)(jnp.asarray(2.0))
