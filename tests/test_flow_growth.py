"""Growth with and without blow-up: detection and its certainty."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import (
    SETTLING,
    STARTS,
    Stretch,
    centred_gaussian,
    ensemble,
    scalar_attention,
)
from jaxtyping import Array
from typing_extensions import override

from meanfield._typing import Time
from meanfield.attention import (
    AbstractCoupling,
    Attention,
    Sinkhorn,
    Softmax,
    attentions,
)
from meanfield.dynamics import (
    AbstractDynamics,
    Drift,
    Heads,
    Interpolated,
    Layers,
    LogTime,
    Prefix,
    Projected,
    Sum,
    stack_trees,
)
from meanfield.endings import Status
from meanfield.fields import AbstractField, Affine
from meanfield.flows import Isotropic, Trajectory, adaptive, flow
from meanfield.flows._short_programs import integrate_fully, is_confirmed
from meanfield.flows.watch._extrapolation import log_rate
from meanfield.linalg import length
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import AbstractScore, Dot
from tests.covariance_reference import integrate_covariances, linear_of

EYE = np.eye(2)


@pytest.mark.slow_cases(
    "l2-1.0-1e-07-2500020.0-float64", "sinkhorn-1.0-1e-07-5000010.0-float64"
)
@pytest.mark.parametrize(
    ("name", "V", "s0", "t", "dtype"),
    [
        ("sinkhorn", 1.0, 1e-7, 5000010.0, np.float64),
        ("l2", 1.0, 1e-7, 2500020.0, np.float64),
        ("sinkhorn", 100.0, 5e-4, 10.1, np.float32),
    ],
)
def test_bounded_growth_is_no_blow_up_even_if_long(
    name: str, V: float, s0: float, t: float, dtype: type
):
    """From small A Σ₀ they follow softmax, t* = 1 / (2 V s₀), to A Σ of order one."""
    cast = lambda number: jnp.asarray(number, dtype)
    attention = scalar_attention(cast(1.0), cast(V), name=name)
    end = flow(attention, centred_gaussian(s0, dtype), jnp.asarray([0.0, t], dtype))
    assert end.status is Status.FINISHED
    assert jnp.isnan(end.t_star)
    assert float(end.final.covariance[0, 0]) > 1e5 * s0


@pytest.mark.slow
def test_growth_that_settles_is_no_blow_up_wherever_the_run_ends():
    """Two covariances of castin2025, Figure 2(d), which grow tenfold and stop.

    They accelerate for a while before; SciPy gives the limits.
    """
    Q, K, V = SETTLING
    spec = {"Q": Q, "K": K, "V": V}
    attention = attentions["softmax"](*map(np.array, SETTLING))
    ends = np.concatenate([np.linspace(6.0, 12.0, 25), [20.0, 73.0, 150.0]])

    def fate(Sigma: Array, ts: Array) -> Trajectory:
        return flow(attention, Gaussian.from_moments(jnp.zeros(2), Sigma), ts)

    for start in STARTS:
        times = np.stack([0 * ends, ends], axis=1)
        actual = ensemble(fate, np.repeat(start[None], len(ends), axis=0), times)
        assert np.all(np.asarray(actual.code) == int(Status.FINISHED))
        exact = integrate_covariances(linear_of(spec), start[None], 150.0)[0]
        Y = np.asarray(actual.last[1][-1])
        np.testing.assert_allclose(Y @ Y.T, exact, rtol=1e-5)
        assert np.trace(exact) > 10


class Mean(AbstractCoupling):
    """A coupling with equal weights that declares no growth bound."""

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        del score
        d = mu.tokens.x.shape[1]
        return Affine(jnp.zeros((d, d)), mu.mean)


def _boundedness_cases() -> dict[str, tuple[AbstractDynamics, AbstractMeasure, bool]]:
    tokens = Points.uniform(np.ones((2, 2)), position=[0.0, 1.0])
    normal = Gaussian.from_moments(np.zeros(2), EYE)
    make = lambda name, K=EYE: attentions[name](EYE, K, EYE)
    flat = np.diag([1.0, 0.0])
    halves = Attention(Dot(EYE, EYE), Sinkhorn(3), EYE)
    between = lambda name: Interpolated(
        [0.0, 2.0], stack_trees([make(name), make(name, -EYE)])
    )
    layers = Layers([0.0, 1.0, 2.0], stack_trees([make("softmax"), make("softmax")]))
    return {
        "softmax, tokens": (make("softmax"), tokens, True),
        "softmax, normal": (make("softmax"), normal, False),
        "l2, normal": (make("l2"), normal, True),
        "l2, singular keys": (make("l2", flat), normal, False),
        "l2, singular keys, tokens": (make("l2", flat), tokens, True),
        "sinkhorn, normal": (make("sinkhorn"), normal, True),
        "sinkhorn cut short, normal": (halves, normal, False),
        "sinkhorn cut short, tokens": (halves, tokens, True),
        "sigmoid, closure": (Projected(make("sigmoid")), normal, True),
        "exp, closure": (Projected(make("exp")), normal, False),
        "exp, tokens": (make("exp"), tokens, False),
        "linear, tokens": (make("linear"), tokens, False),
        "relu, normal": (make("relu"), normal, False),
        "sum": (Sum(make("sinkhorn"), Drift(EYE)), normal, True),
        "sum with softmax": (Sum(make("sinkhorn"), make("softmax")), normal, False),
        "heads": (Heads(stack_trees([make("l2"), make("l2")])), normal, True),
        "one singular head": (
            Heads(stack_trees([make("l2"), make("l2", flat)])),
            normal,
            False,
        ),
        "layers, tokens": (layers, tokens, True),
        "l2 between nodes, normal": (between("l2"), normal, False),
        "l2 between nodes, tokens": (between("l2"), tokens, True),
        "sinkhorn between nodes, normal": (between("sinkhorn"), normal, True),
        "sigmoid between nodes": (Projected(between("sigmoid")), normal, True),
        "log time": (LogTime(make("sinkhorn")), normal, True),
        "one's own, silent": (Stretch(0), tokens, False),
        "sum with one's own": (Sum(make("l2"), Stretch(0)), tokens, False),
        "a coupling of one's own": (
            Attention(Dot(EYE, EYE), Mean(), EYE),
            tokens,
            False,
        ),
        "masked, tokens": (Prefix(make("softmax")), tokens, True),
    }


@pytest.mark.parametrize("name", _boundedness_cases())
def test_linear_bounds_are_claimed_where_they_are_proven_and_nowhere_else(name: str):
    dynamics, mu, expected = _boundedness_cases()[name]
    assert bool(dynamics.is_linearly_bounded(0.5, mu)) is expected


@pytest.mark.slow_cases("0-0.0003-float64-0.001", "0-0.0003-float32-None")
@pytest.mark.parametrize(
    ("law", "x0", "dtype", "rtol"),
    [
        (0, 3e-4, np.float64, None),
        pytest.param(0, 3e-4, np.float64, 1e-5, marks=pytest.mark.slow),
        (0, 3e-4, np.float64, 1e-3),
        (0, 3e-4, np.float32, None),
        pytest.param(0, 1e-2, np.float32, None, marks=pytest.mark.slow),
        pytest.param(0, 3e-2, np.float32, 1e-3, marks=pytest.mark.slow),
        (1, 1.0, np.float64, None),
        pytest.param(1, 1.0, np.float32, 1e-3, marks=pytest.mark.slow),
        pytest.param(2, 1.0, np.float64, None, marks=pytest.mark.slow),
        (2, 1.0, np.float32, None),
        (3, 1e-4, np.float64, None),
        pytest.param(3, 1e-3, np.float64, 1e-4, marks=pytest.mark.slow),
        pytest.param(3, 1e-2, np.float32, None, marks=pytest.mark.slow),
    ],
)
def test_fast_growth_without_a_known_bound_is_no_blow_up(
    law: int, x0: float, dtype: type, rtol: float | None
):
    """Cubic until |x| = 1 and exponential beyond; doubly exponential; faster; at rest.

    Where single precision cannot resolve the turn in time, steps vanish there.
    """
    times = jnp.asarray([0.0, 1 / x0**2 if law in (0, 3) else 20.0], dtype)
    token = Points.uniform(np.full((1, 1), x0, dtype))
    end = flow(Stretch(law), token, times, stepping=adaptive(rtol=rtol))
    assert end.status is not Status.BLOW_UP
    assert jnp.isnan(end.t_star)
    stuck = end.status is Status.MAX_STEPS and dtype is np.float32
    assert end.last[0, 0] > (0.1 if stuck or law == 3 else 1e10)


def test_a_turn_that_single_precision_cannot_time_is_no_blow_up():
    """There an e-fold takes a few roundings of the time, and exponents are noise."""
    x0 = 10 ** np.linspace(-1.7, -1.5, 128, dtype=np.float32)

    def fate(x0: Array, t: Array) -> Trajectory:
        token, ts = Points.uniform(x0[None, None]), jnp.stack([0 * t, t])
        return flow(Stretch(4), token, ts, stepping=adaptive(rtol=1e-3, max_steps=2000))

    ends = ensemble(fate, x0, 1 / (2 * x0**4))
    assert not np.any(ends.code == int(Status.BLOW_UP))


@pytest.mark.parametrize(
    ("law", "x0", "rtol"),
    [(0, 3e-4, 1e-3), pytest.param(3, 1e-4, None, marks=pytest.mark.slow)],
)
def test_a_refuted_blow_up_leaves_the_flow_unchanged(
    law: int, x0: float, rtol: float | None
):
    """Outside `jit` the field is asked in a second program, inside it at every step."""
    token, times = Points.uniform(np.full((1, 1), x0)), jnp.array([0.0, 1 / x0**2])
    run = lambda: flow(Stretch(law), token, times, stepping=adaptive(rtol=rtol))
    asked = integrate_fully.programs
    eager, traced = run(), eqx.filter_jit(run)()
    assert integrate_fully.programs == asked + 1
    assert eager.status is traced.status is not Status.BLOW_UP
    assert int(eager.n_accepted) == int(traced.n_accepted)
    np.testing.assert_allclose(eager.last, traced.last, rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "s0", "status"),
    [(1.0, 2.0, Status.BLOW_UP), (-1.0, 2.0, Status.FINISHED)],
)
def test_flows_ask_the_field_far_ahead_only_near_a_blow_up(
    value: float, s0: float, status: Status
):
    """The short programs find what the long one finds inside `jit`."""
    times, long, confirmed = [0.0, 1.0], integrate_fully.programs, is_confirmed.programs
    dynamics, start = scalar_attention(1.0, value), centred_gaussian(s0)
    eager, traced = (
        flow(dynamics, start, times),
        eqx.filter_jit(flow)(dynamics, start, jnp.asarray(times)),
    )
    assert eager.status is traced.status is status
    assert integrate_fully.programs == long
    assert is_confirmed.programs - confirmed <= (status is Status.BLOW_UP)
    np.testing.assert_allclose(eager.t_star, traced.t_star, rtol=1e-10)
    np.testing.assert_allclose(eager.t_star_error, traced.t_star_error, rtol=1e-3)


def test_blow_up_detection_does_not_depend_on_segments():
    """Softmax from s₀ = 2 is infinite at t = 1/4: the rest is within errors."""
    times, loose = [0.0, 0.24997], adaptive(rtol=1e-4)
    end = flow(scalar_attention(1.0, 1.0), centred_gaussian(2.0), times, stepping=loose)
    assert end.status is Status.FINISHED


@pytest.mark.slow
def test_vanishing_keys_blow_up_at_that_instant():
    """L2 with K = 1 - t: $σ' = 3K σ^3 / (1 + K^2 σ^2)$, late $σ ~ (1 - t)^{-3}$."""
    keys, ones = ([[1.0]], [[0.0]], [[-1.0]]), [[1.0]]
    nodes = [attentions["l2"](ones, K, [[3.0]]) for K in keys]
    end = flow(
        Interpolated([0.0, 1.0, 2.0], stack_trees(nodes)),
        centred_gaussian(1.0),
        [0.0, 2.0],
    )
    assert end.status is Status.BLOW_UP
    assert abs(end.t_star - 1) <= min(float(end.t_star_error), 1e-5)


@pytest.mark.slow
def test_slow_power_laws_are_detected():
    """Y₂ is driven by Y₁ ~ (t* - t)^(-1/2) and grows like (t* - t)^(-c/2)."""
    c, y = np.array([8.0, 20.0, 30.0, 60.0]), np.array([1.0, 0.7])

    def fate(c: Array) -> Trajectory:
        V = jnp.diag(jnp.stack([jnp.ones_like(c), c]))
        attention = Attention(Dot(np.diag([1.0, 0.0]), EYE), Softmax(), V)
        return flow(attention, Gaussian(jnp.zeros(2), jnp.asarray(y)[:, None]), [0, 2])

    ends = ensemble(fate, c)
    assert np.all(ends.code == int(Status.BLOW_UP))
    assert np.all(np.abs(ends.t_star - 0.5) <= np.minimum(ends.t_star_error, 1e-8))


@pytest.mark.slow
def test_a_power_of_fifty_is_detected_at_overflow():
    """x' = x^1.02 has t* = 50; at 1e154 it is still 0.04 away."""

    class Slow(Stretch):
        @override
        def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
            assert isinstance(mu, Points)
            rate = length(mu.tokens.x) ** 0.02
            return Affine(rate * jnp.eye(1), jnp.zeros(1))

    end = flow(Slow(0), Points.uniform([[1.0]]), [0.0, 100.0])
    assert end.status is Status.BLOW_UP
    assert end.stop_time < 49.99
    assert abs(end.t_star - 50) <= min(float(end.t_star_error), 1e-6)


@pytest.mark.slow_cases("float32-30")
@pytest.mark.parametrize(("dtype", "width"), [(np.float64, 100), (np.float32, 30)])
def test_blow_up_error_bars_cover_and_are_tight(
    dtype: type, width: float, rng: np.random.Generator
):
    """With V = I, 1 / t* is the largest eigenvalue of Σ₀^½ (A + Aᵀ) Σ₀^½."""
    A, Y = rng.normal(size=(2, 60, 2, 2))
    Sigma = Y @ np.swapaxes(Y, 1, 2) + 0.1 * EYE
    A, Sigma = A.astype(dtype), Sigma.astype(dtype)
    L = np.linalg.cholesky(Sigma.astype(float))
    H = (A + np.swapaxes(A, 1, 2)).astype(float)
    growth = np.linalg.eigvalsh(np.swapaxes(L, 1, 2) @ H @ L)[:, -1]
    A, Sigma, exact = A[growth > 0], Sigma[growth > 0], 1 / growth[growth > 0]

    def fate(A: Array, Sigma: Array, t: Array) -> Trajectory:
        eye = jnp.eye(2, dtype=dtype)
        mu = Gaussian.from_moments(jnp.zeros(2, dtype), Sigma)
        return flow(attentions["softmax"](A, eye, eye), mu, jnp.stack([0 * t, 2 * t]))

    ends = ensemble(fate, A, Sigma, exact.astype(dtype))
    assert np.all(ends.code == int(Status.BLOW_UP))
    ratio = np.asarray(ends.t_star_error) / np.abs(np.asarray(ends.t_star) - exact)
    assert len(ratio) > 30
    assert np.min(ratio) >= 1
    assert np.median(ratio) <= width


def test_an_extrapolated_state_with_overflow_turns_inwards():
    """|x|² = 1e10 and |v| = 1e34 are single precision numbers, x . v overflows."""
    x = jnp.asarray([[7e4, 7e4]], jnp.float32)
    mu = Points.uniform(x)
    inwards = -1e29 * x + 1e29 * x[:, ::-1] * jnp.asarray([[0.5, -0.5]], jnp.float32)
    assert log_rate(mu, inwards) == -jnp.inf
    outwards = float(log_rate(mu, -inwards))
    assert abs(outwards - 29 * np.log(10)) < 1e-3


@pytest.mark.parametrize("seed", [35, 56])
def test_stiff_growth_under_noise_is_no_blow_up(seed: int):
    """The rate is constant (35), or linear in the logarithm of the size (56)."""
    draw = np.random.default_rng(seed)
    A, V, factor = draw.normal(size=(3, 3, 3))
    mean, noise = draw.normal(size=3) * (seed % 2), 10 ** draw.uniform(-4, 1)
    attention = attentions["softmax"](A, np.eye(3), V)
    trajectory = flow(
        attention,
        Gaussian(jnp.asarray(mean), jnp.asarray(factor)),
        [0.0, 20.0],
        noise=Isotropic(noise),
        stepping=adaptive(max_steps=8_000),
    )
    assert trajectory.status == Status.MAX_STEPS
    assert trajectory.final.size > 100
