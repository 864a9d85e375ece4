"""Flows: against independent integrators, closed forms, and their endings."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diffrax import ForwardMode
from helpers import Case, assert_close, case, gaussian, parameters, small_scores
from jaxtyping import Array
from reference import Parameters, gaussian_linear, velocity
from scipy.integrate import solve_ivp

from meanfield._typing import Numbers
from meanfield.attention import (
    Attention,
    Softmax,
    attentions,
    closed_on_gaussians,
)
from meanfield.dynamics import Heads, Interpolated, Layers, stacked
from meanfield.errors import InvalidInputError, NotClosedError, SimulationFailed
from meanfield.flows import (
    AbstractStepping,
    Status,
    Steady,
    Trajectory,
    adaptive,
    fixed,
    flow,
    solvers,
)
from meanfield.measures import Gaussian, Points
from meanfield.measures.sampling import gauss_hermite, gaussian_draw
from meanfield.scores import Dot

every_variant = pytest.mark.parametrize("name", list(attentions))
every_closed = pytest.mark.parametrize("name", closed_on_gaussians())

RTOL = np.finfo(np.float64).eps ** 0.6  # of one default step, in double precision


def ensemble(fn: Callable, *batched: Numbers) -> Trajectory:
    """`fn` of every member at once, compiled once."""
    arrays = [jnp.asarray(a) for a in batched]
    return jax.jit(jax.vmap(fn))(*arrays)


# Against SciPy


def scipy_gaussian(
    name: str, p: Parameters, mu: Gaussian, t: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at `t`, by DOP853 on the equations of the literature."""
    d = mu.mean.shape[0]

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        alpha, Sigma = state[:d], state[d:].reshape(d, d)
        L, b = gaussian_linear(name, p, Sigma, alpha)
        half = L @ Sigma
        return np.concatenate([L @ alpha + b, (half + half.T).ravel()])

    start = np.concatenate([np.asarray(mu.mean), np.asarray(mu.covariance).ravel()])
    end = solve_ivp(rate, (0, t), start, method="DOP853", rtol=1e-12, atol=1e-14)
    return end.y[:d, -1], end.y[d:, -1].reshape(d, d)


@every_closed
def test_gaussians_follow_the_literature(name: str, rng: np.random.Generator):
    mu = gaussian(rng, 2, mean=name != "relu")
    p = parameters(rng, 2)
    t = 0.3
    trajectory = flow(attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon), mu, [0.0, t])
    alpha, Sigma = scipy_gaussian(name, p, mu, t)
    assert trajectory.status == Status.FINISHED
    # Each step errs by RTOL of the size, and the flow stretches errors by e^{Lt} < 10.
    allowed = 10 * RTOL * int(trajectory.n_accepted) * max(1, np.max(np.abs(Sigma)))
    assert np.max(np.abs(trajectory.final.mean - alpha)) <= allowed
    assert np.max(np.abs(trajectory.final.covariance - Sigma)) <= allowed


def mild(c: Case) -> Case:
    """Small values: far from the blow-up of the variants that have one."""
    p = Parameters(c.p.Q, c.p.K, c.p.V / 4, c.p.epsilon)
    return Case(p, c.x / 2, c.w, c.probes)


@every_variant
def test_points_follow_the_definition(name: str, rng: np.random.Generator):
    c = mild(case(rng, n=5, d=2))
    t = 0.25
    trajectory = flow(c.attention(name), c.points(), [0.0, t])

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        x = state.reshape(c.x.shape)
        return velocity(name, c.p, x, x, c.w).ravel()

    end = solve_ivp(rate, (0, t), c.x.ravel(), method="DOP853", rtol=1e-11, atol=1e-12)
    expected = end.y[:, -1].reshape(c.x.shape)
    size = np.max(np.abs(expected))
    # Step errors, and a Sinkhorn solve's own 4e-11, both stretched by less than 10.
    allowed = 10 * RTOL * max(10, int(trajectory.n_accepted)) * size
    assert np.max(np.abs(trajectory.last - expected)) <= allowed


def test_parameters_that_change_with_time(rng: np.random.Generator):
    """Linear between nodes, against SciPy with the same parameters."""
    c = case(rng, n=5, d=2, epsilon=1.0)
    other = parameters(rng, 2, epsilon=1.0)
    make = attentions["softmax"]
    stack = stacked([make(c.p.Q, c.p.K, c.p.V), make(other.Q, other.K, other.V)])
    trajectory = flow(Interpolated([0.2, 0.7], stack), c.points(), [0.0, 1.0])

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        s = np.clip((t - 0.2) / 0.5, 0, 1)
        blend = lambda a, b: (1 - s) * a + s * b
        p = Parameters(*map(blend, (c.p.Q, c.p.K, c.p.V), (other.Q, other.K, other.V)))
        x = state.reshape(c.x.shape)
        return velocity("softmax", p, x, x, c.w).ravel()

    state = c.x.ravel()
    for start, end in ((0, 0.2), (0.2, 0.7), (0.7, 1.0)):
        leg = solve_ivp(
            rate, (start, end), state, method="DOP853", rtol=1e-12, atol=1e-13
        )
        state = leg.y[:, -1]
    allowed = 10 * RTOL * int(trajectory.n_accepted) * np.max(np.abs(state))
    assert np.max(np.abs(trajectory.last - state.reshape(c.x.shape))) <= allowed


@pytest.mark.parametrize("solver", sorted(set(solvers) - {"shark"}))  # it needs noise
def test_solvers_agree(solver: str, rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    # Order one and two would need millions of steps for the default tolerance.
    loose = 1e-5 if solver in ("euler", "heun") else 1e-9
    attention, times = c.attention("softmax"), [0.0, 0.25]
    if solver == "euler":
        trajectory = flow(attention, c.points(), times, stepping=fixed(1e-5))
    else:
        stepping = adaptive(solver, rtol=loose)
        trajectory = flow(attention, c.points(), times, stepping=stepping)
    best = flow(attention, c.points(), times)
    assert_close(trajectory.last, best.last, ulps=50 * loose / np.finfo(float).eps)


# Points and Gaussians


@every_closed
def test_nodes_follow_their_gaussian(name: str, rng: np.random.Generator):
    """To solver tolerance: quadrature is exact while scores stay small."""
    mu = gaussian(rng, 2, mean=name != "relu")
    p = small_scores(rng, 2, np.asarray(mu.factor))
    attention = attentions[name](p.Q, p.K, p.V / 4, epsilon=p.epsilon)
    nodes = gauss_hermite(mu, order=16)
    times = [0.0, 0.5]
    exact, sampled = flow(attention, mu, times), flow(attention, nodes, times)
    steps = int(exact.n_accepted) + int(sampled.n_accepted)
    for i in range(2):
        a, b = exact.at(i), sampled.at(i)
        assert np.max(np.abs(a.mean - b.mean)) <= 10 * RTOL * steps
        assert np.max(np.abs(a.covariance - b.covariance)) <= 10 * RTOL * steps


def test_heads_and_layers_of_nodes_follow_their_gaussian(rng: np.random.Generator):
    mu = gaussian(rng, 2)
    heads = []
    for _ in range(2):
        ps = [small_scores(rng, 2, np.asarray(mu.factor)) for _ in range(2)]
        heads.append(
            Heads(stacked([attentions["softmax"](p.Q, p.K, p.V / 4) for p in ps]))
        )
    layers = Layers([0.0, 0.2, 0.5], stacked(heads))
    nodes = gauss_hermite(mu, order=16)
    exact, sampled = flow(layers, mu, [0.0, 0.5]), flow(layers, nodes, [0.0, 0.5])
    steps = int(exact.n_accepted) + int(sampled.n_accepted)
    gap = exact.final.covariance - sampled.final.covariance
    assert np.max(np.abs(gap)) <= 10 * RTOL * steps


def test_the_gap_of_random_tokens_falls_like_one_over_root_n(key: Array):
    """Root mean square over draws; the slope within three standard errors of -1/2."""
    draws, sizes = 24, np.array([32, 128, 512, 1024])
    mu = Gaussian(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.5, 0.8]]))
    A = jnp.array([[-0.6, 0.3], [0.1, -0.4]])
    attention = Attention(Dot(A, jnp.eye(2)), Softmax(), jnp.eye(2))
    times, stepping = jnp.array([0.0, 0.5]), fixed(0.1)
    limit = flow(attention, mu, times, stepping=stepping).final.covariance
    keys = jax.random.split(key, draws)
    squares = []
    for n in sizes.tolist():

        def gap(one: Array, n: int = n) -> Array:
            cloud = gaussian_draw(mu, n, key=one)
            end = flow(attention, cloud, times, stepping=stepping).final
            return jnp.sum((end.covariance - limit) ** 2)

        squares.append(jax.jit(lambda ks: jax.lax.map(gap, ks))(keys))
    squares = np.array(squares)
    slopes = np.polyfit(np.log(sizes), np.log(squares.mean(1)) / 2, 1)[0]
    choose = np.random.default_rng(0).integers(draws, size=(400, draws))
    resampled = [
        np.polyfit(np.log(sizes), np.log(squares[:, c].mean(1)) / 2, 1)[0]
        for c in choose
    ]
    error = np.std(resampled)
    assert error < 0.1  # enough draws to tell -1/2 from 0 and from -1
    assert abs(slopes + 0.5) < 3 * error


# Closed forms in dimension one


def one_dimensional(A: object, V: object, *, name: str = "softmax") -> Attention:
    cast = lambda a: jnp.reshape(jnp.asarray(a), (1, 1))
    one = jnp.ones((1, 1), cast(A).dtype)
    return attentions[name](cast(A), one, cast(V))


def spread(s0: float | Array, dtype: type = np.float64) -> Gaussian:
    factor = jnp.sqrt(jnp.asarray(s0, dtype)).reshape(1, 1)
    return Gaussian(jnp.zeros(1, dtype), factor)


def test_the_variance_of_softmax_in_dimension_one():
    """castin2025, Prop. 4.3: s = 1 / (1/s0 - 2avt), so 2/41 here."""
    trajectory = flow(one_dimensional(-1.0, 1.0), spread(2.0), [0.0, 10.0])
    assert abs(trajectory.final.covariance[0, 0] - 2 / 41) < 1e-9


def test_the_blow_up_of_softmax_in_dimension_one():
    trajectory = flow(one_dimensional(1.0, 1.0), spread(2.0), [0.0, 10.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 0.25) < 1e-6
    assert abs(trajectory.t_star - 0.25) <= trajectory.t_star_error
    assert trajectory.t_star_error < 1e-6
    assert trajectory.stop_time < 0.25
    trajectory.raise_for_status()  # a blow-up is a result


@pytest.mark.parametrize("name", ["l2", "sinkhorn"])
def test_l2_and_sinkhorn_never_blow_up_in_dimension_one(
    name: str, rng: np.random.Generator
):
    """castin2025, Prop. 4.13 and after 4.15: they grow at most exponentially."""
    A, V = rng.normal(size=(2, 40)) * 2
    A[0], V[0] = 1.0, 1.0
    fate = lambda a, v: flow(one_dimensional(a, v, name=name), spread(2.0), [0.0, 10.0])
    codes = ensemble(fate, A, V).code
    assert not np.any(codes == int(Status.BLOW_UP))
    assert codes[0] == int(Status.FINISHED)


def test_growth_to_overflow_is_not_a_blow_up():
    """L2 in dimension one grows like e^{2t}: past 1e154 by t = 355, 1e308 by 710."""
    attention = one_dimensional(1.0, 1.0, name="l2")
    long = flow(attention, spread(2.0), jnp.linspace(0.0, 1000.0, 5))
    assert long.status == Status.NOT_FINITE
    assert jnp.isnan(long.t_star)
    assert jnp.all(jnp.isfinite(long.last[1]))
    assert long.last[1] > 1e150  # where its square, the variance, overflows
    with pytest.raises(SimulationFailed, match="not-finite"):
        long.raise_for_status()


def test_particles_of_linear_attention_blow_up_on_time():
    """In dimension one x' = a v m x with m = E x^2, so m = 1 / (1/m0 - 2avt)."""
    x = np.array([[-1.0], [0.5], [2.0]])
    w = np.array([0.5, 0.3, 0.2])
    m0 = float(w @ x[:, 0] ** 2)
    attention = one_dimensional(0.7, 1.5, name="linear")
    trajectory = flow(attention, Points.weighted(x, w), [0.0, 10.0])
    expected = 1 / (2 * 0.7 * 1.5 * m0)
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - expected) <= 1e-6 * expected
    assert abs(trajectory.t_star - expected) <= trajectory.t_star_error


# Blow-up in higher dimension


def commuting_case(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """V commutes with Sigma_0 and H: scalar on two blocks, A generic within each."""
    U = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    A, V, Sigma = np.zeros((3, 4, 4))
    for block in (slice(0, 2), slice(2, 4)):
        v = rng.uniform(0.3, 2) * rng.choice([-1, 1])
        Y, M = rng.normal(size=(2, 2, 2))
        negative = np.array([[0, 1], [-1, 0]]) - v * (M @ M.T + 0.1 * np.eye(2))
        A[block, block] = negative if rng.uniform() < 0.7 else M
        V[block, block] = v * np.eye(2)
        Sigma[block, block] = Y @ Y.T + 0.05 * np.eye(2)
    return tuple(U @ M @ U.T for M in (A, V, Sigma))


def largest_growth(A: np.ndarray, V: np.ndarray, Sigma: np.ndarray) -> float:
    """castin2025, Prop. 4.4 with its interval corrected (ERRATA C7): this is 1/t*."""
    H = V @ A + A.T @ V.T
    Y = np.linalg.cholesky(Sigma)
    return float(np.linalg.eigvalsh(Y.T @ H @ Y)[-1])


# Time resolution at a blow-up: 5.5e-7 of the time elapsed at the end in double
# precision, of which three points of the growth law recover all but the step errors.
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_a_hundred_commuting_cases_end_as_they_must(
    dtype: type, digits: float, rng: np.random.Generator
):
    cases = [commuting_case(rng) for _ in range(100)]
    growth = np.array([largest_growth(*c) for c in cases])
    blows_up = growth > 0
    assert 20 < blows_up.sum() < 80
    t_star = 1 / np.where(blows_up, growth, 1)
    ends = np.where(blows_up, 2 * t_star, 10.0)
    times = np.stack([0 * ends, ends], axis=1)
    A, V, Sigma = (np.array(leaf) for leaf in zip(*cases, strict=True))

    def fate(A: Array, V: Array, Sigma: Array, ts: Array) -> Trajectory:
        attention = Attention(Dot(A, jnp.eye(4, dtype=dtype)), Softmax(), V)
        return flow(attention, Gaussian.from_moments(jnp.zeros(4, dtype), Sigma), ts)

    found = ensemble(fate, *(a.astype(dtype) for a in (A, V, Sigma, times)))
    expected = np.where(blows_up, int(Status.BLOW_UP), int(Status.FINISHED))
    assert np.array_equal(found.code, expected)
    error = np.abs(np.asarray(found.t_star) - t_star)[blows_up]
    assert np.all(error <= digits * t_star[blows_up])
    # The law tells t_star from the last time seen, which is near it too.
    assert np.median(error / t_star[blows_up]) <= digits / 100
    assert np.all(error <= np.asarray(found.t_star_error)[blows_up])
    assert np.all(np.isnan(np.asarray(found.t_star)[~blows_up]))


@pytest.mark.parametrize("gap", [0.0, 1e-6, 1e-3, 0.1])
def test_blow_ups_that_nearly_coincide(gap: float):
    Sigma = np.diag([1.0, 1.0 - gap, 0.9])
    attention = Attention(Dot(np.eye(3), np.eye(3)), Softmax(), np.eye(3))
    trajectory = flow(attention, Gaussian.from_moments(np.zeros(3), Sigma), [0.0, 2.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 0.5) <= min(1e-6, float(trajectory.t_star_error))


def test_l2_with_a_singular_key_matrix_blows_up_at_three():
    """ERRATA C11: against Lemma 4.12, and with growth that is no power at first."""
    K, Q = np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]])
    attention = attentions["l2"](Q, K, np.diag([0.0, 1.0]))
    Sigma = np.array([[1.0, 0.5], [0.5, 1.0]])
    mu = Gaussian.from_moments(np.zeros(2), Sigma)
    trajectory = flow(attention, mu, [0.0, 1.5, 2.7, 10.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 3) <= min(3e-6, float(trajectory.t_star_error))
    for i, t in ((1, 1.5), (2, 2.7)):
        covariance = trajectory.at(i).covariance
        assert abs(covariance[0, 1] - 1 / (2 - 2 * t / 3)) < 1e-6


def test_a_jump_to_fast_layers_is_not_a_blow_up():
    """Rates that jump by 1e6, on their own layers, grow exponentially and no faster."""
    token = Points.uniform([[1.0, 0.5]])
    still = jnp.zeros((2, 2))
    rates = [1.0, 1e6, 1.0]
    members = [Attention(Dot(still, still), Softmax(), r * jnp.eye(2)) for r in rates]
    layers = Layers([0.0, 1.0, 1.0 + 2e-5, 2.0], stacked(members))
    trajectory = flow(layers, token, [0.0, 2.0])
    assert trajectory.status == Status.FINISHED
    expected = np.exp(1 + 20 + (1 - 2e-5))
    # The layer is 2e-5 long to within rounding of its edges: 1e6 * 2e-16 relative.
    assert abs(trajectory.last[0, 0] / expected - 1) < 1e-6


def test_ever_faster_layers_are_not_a_blow_up():
    """Each layer ten times as fast for a tenth as long: a blow-up but for the jumps."""
    token = Points.uniform([[1.0]])
    zero = jnp.zeros((1, 1))
    rates = 10.0 ** jnp.arange(8)
    members = [Attention(Dot(zero, zero), Softmax(), r * jnp.eye(1)) for r in rates]
    edges = np.concatenate([[0.0], np.cumsum(1.0 / np.asarray(rates))])
    trajectory = flow(Layers(edges, stacked(members)), token, [0.0, float(edges[-1])])
    assert trajectory.status == Status.FINISHED


# Steady states


def linear_drift(V: object) -> Attention:
    """One token under softmax attention obeys x' = Vx."""
    V = jnp.atleast_2d(jnp.asarray(V, float))
    zero = jnp.zeros_like(V)
    return Attention(Dot(zero, zero), Softmax(), V)


@pytest.mark.parametrize("rtol", [1e-3, 1e-8])
def test_steady_stops_within_its_tolerance(rtol: float):
    start = Points.uniform([[3.0, -4.0]])
    drift = linear_drift([[-1.0, 0.0], [0.0, -3.0]])
    trajectory = flow(drift, start, [0.0, 1e4], stop=Steady(rtol))
    distance = float(jnp.max(jnp.abs(trajectory.last)))  # of rest, which is 0
    assert trajectory.status == Status.STEADY
    assert distance <= 5 * rtol  # five is the initial size
    assert distance >= 1e-4 * 5 * rtol  # and it does not linger for long


def test_steady_finds_the_limit_of_attention(rng: np.random.Generator):
    """castin2025, Prop. 4.4: with V = I and A negative definite all goes to zero."""
    mu = gaussian(rng, 2, mean=False)
    attention = attentions["l2"](-np.eye(2), np.eye(2), np.eye(2))
    trajectory = flow(attention, mu, [0.0, 1e12], stop=Steady(1e-4))
    assert trajectory.status == Status.STEADY
    left = float(trajectory.final.norm(trajectory.last))
    assert left <= 1e-4 * float(mu.norm(mu.coordinates))


def test_a_creep_that_grows_is_not_rest():
    """Near a saddle the speed is tiny, a tenth of rtol, and it is not rest."""
    start = Points.uniform([[1.0, 1e-7]])
    drift = linear_drift([[0.0, 0.0], [0.0, 0.1]])
    trajectory = flow(drift, start, [0.0, 200.0], stop=Steady(1e-6))
    assert trajectory.status == Status.FINISHED
    # Errors of the first steps, 4e-11 of the size each, grow with the creep itself.
    assert abs(trajectory.last[0, 1] / (1e-7 * np.exp(20)) - 1) < 0.01


def test_a_creep_of_constant_speed_is_not_rest():
    start = Points.uniform([[1.0, 0.0]])
    zero = jnp.zeros((2, 2))
    drift = Attention(Dot(zero, zero), Softmax(), zero, jnp.array([0.0, 1e-9]))
    trajectory = flow(drift, start, [0.0, 1e6], stop=Steady(1e-6))
    assert trajectory.status == Status.FINISHED
    assert_close(trajectory.last[0, 1], 1e-3, ulps=1e7)  # RTOL for each step


@pytest.mark.parametrize("power", [2, 3])
def test_algebraic_decay_stops_near_its_limit(power: int):
    """The spread of softmax falls like t^(-1/2) in dimension one; so does its rate."""
    trajectory = flow(
        one_dimensional(-1.0, 1.0), spread(2.0), [0.0, 1e9], stop=Steady(10.0**-power)
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
    layers = Layers([0.0, 30.0, 31.0], stacked(members))
    trajectory = flow(layers, Points.uniform([[1.0]]), [0.0, 31.0], stop=Steady())
    assert trajectory.status == Status.FINISHED
    assert float(trajectory.stop_time) == 31.0


# Fixed steps


@pytest.mark.parametrize("dt", [0.1, 0.07])
def test_fixed_steps_are_those_of_a_loop(dt: float, rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    trajectory = flow(
        c.attention("softmax"), c.points(), [0.0, 1.0], stepping=fixed(dt)
    )
    x, t, steps = c.x, 0.0, 0
    while t < 1.0 - 1e-12:
        h = min(dt, 1.0 - t)
        x = x + h * velocity("softmax", c.p, x, x, c.w)
        t, steps = t + h, steps + 1
    assert int(trajectory.n_accepted) == steps
    assert int(trajectory.n_rejected) == 0
    assert np.max(np.abs(trajectory.last - x)) < 1e-13 * np.max(np.abs(x)) * steps


@pytest.mark.parametrize(
    "stepping", [adaptive(), fixed(0.05)], ids=["adaptive", "fixed"]
)
def test_no_step_straddles_a_layer(
    stepping: AbstractStepping, rng: np.random.Generator
):
    """A flow through layers is the flows of its layers, one after another."""
    c, other = case(rng, n=5, d=2), parameters(rng, 2)
    make = attentions["softmax"]
    first = make(c.p.Q, c.p.K, c.p.V)
    second = make(other.Q, other.K, 3 * other.V)
    layers = Layers([0.0, 0.3, 0.6], stacked([first, second]))
    whole = flow(layers, c.points(), [0.0, 0.6], stepping=stepping)
    half = flow(first, c.points(), [0.0, 0.3], stepping=stepping)
    rest = flow(second, half.final, [0.3, 0.6], stepping=stepping)
    steps = int(whole.n_accepted)
    assert np.max(np.abs(whole.last - rest.last)) < min(1e-9, 10 * RTOL * steps)
    assert whole.status == Status.FINISHED


def test_fixed_steps_are_shortened_to_land_on_a_layer(rng: np.random.Generator):
    """Edges every 0.07 and at 0.31; no stage reads the layer of the next step."""
    c, other = case(rng, n=5, d=2), parameters(rng, 2)
    make = attentions["softmax"]
    first = make(c.p.Q, c.p.K, c.p.V, epsilon=c.p.epsilon)
    second = make(other.Q, other.K, 3 * other.V, epsilon=other.epsilon)
    layers = Layers([0.0, 0.31, 0.6], stacked([first, second]))
    stepping = fixed(0.07, "heun")
    trajectory = flow(layers, c.points(), [0.0, 0.6], stepping=stepping)
    x = c.x
    edges = np.unique([*(0.07 * np.arange(9)), 0.31, 0.6])
    for start, end in itertools.pairwise(edges):
        p = (
            c.p
            if end <= 0.31
            else Parameters(other.Q, other.K, 3 * other.V, other.epsilon)
        )
        v = velocity("softmax", p, x, x, c.w)
        y = x + (end - start) * v
        x = x + (end - start) / 2 * (v + velocity("softmax", p, y, y, c.w))
    assert np.max(np.abs(trajectory.last - x)) < 1e-12 * np.max(np.abs(x))
    assert int(trajectory.n_accepted) == len(edges) - 1


def test_jumps_outside_the_times_do_not_matter(rng: np.random.Generator):
    c = case(rng, n=5, d=2)
    one = c.attention("softmax")
    layers = Layers([-2.0, -1.0, 5.0, 6.0], stacked([one, one, one]))
    for stepping in (fixed(0.1), adaptive()):
        plain = flow(one, c.points(), [0.0, 1.0], stepping=stepping)
        layered = flow(layers, c.points(), [0.0, 1.0], stepping=stepping)
        assert layered.status == Status.FINISHED
        assert_close(layered.last, plain.last, ulps=1e4)
        assert int(layered.n_accepted) == int(plain.n_accepted)


# Failures and frames


def test_a_fixed_step_that_explodes_keeps_the_last_good_state():
    attention = one_dimensional(1.0, 1.0, name="linear")
    cloud = Points.uniform([[1.0], [2.0]])
    times = np.linspace(0.0, 5.0, 11)
    trajectory = flow(attention, cloud, times, stepping=fixed(0.1))
    assert trajectory.status == Status.NOT_FINITE
    assert jnp.all(jnp.isfinite(trajectory.final.covariance))
    assert jnp.all(jnp.isfinite(trajectory.coordinates))
    saved = int(trajectory.n_saved)
    assert 1 <= saved < len(times)
    assert times[saved - 1] <= trajectory.stop_time + 1e-12 < times[saved] + 1e-12
    for i in range(saved, len(times)):
        assert_close(trajectory.coordinates[i], trajectory.last, ulps=0)
    with pytest.raises(SimulationFailed, match="not-finite") as failure:
        trajectory.raise_for_status()
    assert "\n" not in str(failure.value)


def test_a_blow_up_slower_than_any_power_is_found_too():
    """One token under exp attention: x' = x e^{x^2} grows like the root of a log."""
    attention = one_dimensional(1.0, 1.0, name="exp")
    trajectory = flow(attention, Points.uniform([[1.0]]), [0.0, 0.1, 1.0])
    assert trajectory.status == Status.BLOW_UP
    assert jnp.all(jnp.isfinite(trajectory.last))
    # x' = x e^{x^2}: t = (E1(1) - E1(x^2)) / 2 ends at E1(1) / 2 = 0.1097.
    exact = 0.109691967197760  # half of scipy.special.exp1(1)
    assert abs(float(trajectory.t_star) - exact) < 1e-8
    assert int(trajectory.n_saved) == 2


def test_running_out_of_steps_is_said():
    trajectory = flow(
        one_dimensional(-1.0, 1.0),
        spread(2.0),
        [0.0, 0.01, 10.0],
        stepping=adaptive(max_steps=10),
    )
    assert trajectory.status == Status.MAX_STEPS
    assert int(trajectory.n_accepted) + int(trajectory.n_rejected) == 10
    assert 0 < trajectory.stop_time < 10
    exact = 1 / (0.5 + 2 * float(trajectory.stop_time))
    assert abs(float(trajectory.final.covariance[0, 0]) - exact) < 1e-8
    with pytest.raises(SimulationFailed, match="max-steps"):
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


@pytest.mark.parametrize(
    "stepping", [adaptive(), fixed(0.1)], ids=["adaptive", "fixed"]
)
def test_one_time_is_a_start_and_nothing_else(stepping: AbstractStepping):
    trajectory = flow(
        one_dimensional(-1.0, 1.0),
        spread(2.0),
        [1.5],
        stepping=stepping,
    )
    assert trajectory.status == Status.FINISHED
    assert int(trajectory.n_saved) == 1
    assert_close(trajectory.at(0).covariance, [[2.0]])
    assert_close(trajectory.final.covariance, [[2.0]])
    assert float(trajectory.stop_time) == 1.5


@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "sigmoid"])
def test_one_token_in_one_dimension(name: str):
    attention = attentions[name]([[0.5]], [[1.0]], [[-1.0]])
    trajectory = flow(attention, Points.uniform([[0.7]]), [0.0, 0.5])
    assert trajectory.status == Status.FINISHED
    p = Parameters(np.array([[0.5]]), np.eye(1), -np.eye(1))
    one = np.ones(1)
    rate = lambda _, x: velocity(name, p, x[:, None], x[:, None], one)[:, 0]
    end = solve_ivp(rate, (0, 0.5), [0.7], method="DOP853", rtol=1e-12, atol=1e-13)
    assert np.max(np.abs(trajectory.last[0] - end.y[:, -1])) < 1e-8


@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_all_tokens_at_the_origin(name: str):
    """A start without size has no scale for tolerances, and must not need one."""
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
    """Rates of 1 and 1e5: an explicit method needs 3e4 steps, stability alone."""
    drift = linear_drift(np.diag([-1.0, -1e5]))
    start = Points.uniform([[1.0, 1.0]])
    trajectory = flow(
        drift, start, [0.0, 1.0], stepping=adaptive("kvaerno5", rtol=1e-8)
    )
    assert trajectory.status == Status.FINISHED
    assert int(trajectory.n_accepted) < 500
    assert np.max(np.abs(trajectory.last - np.array([[np.exp(-1.0), 0.0]]))) < 1e-6


def test_single_precision_stays_single():
    mu = spread(2.0, np.float32)
    attention = one_dimensional(jnp.float32(-1.0), jnp.float32(1.0))
    trajectory = flow(attention, mu, jnp.array([0.0, 10.0], jnp.float32))
    assert trajectory.last[1].dtype == jnp.float32
    assert abs(float(trajectory.final.covariance[0, 0]) - 2 / 41) < 1e-5
    up = flow(one_dimensional(jnp.float32(1.0), jnp.float32(1.0)), mu, [0.0, 10.0])
    assert up.status == Status.BLOW_UP
    assert abs(float(up.t_star) - 0.25) <= min(1e-3, float(up.t_star_error))


# Ensembles


def test_members_of_an_ensemble_do_not_disturb_each_other():
    """Different endings side by side, each as it is alone."""
    A = np.array([1.0, -1.0, 5.0, 0.0, -0.1])
    V = np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    times = jnp.array([0.0, 0.05, 0.4, 2.0])
    alone = lambda a, v: flow(
        one_dimensional(a, v), spread(2.0), times, stepping=adaptive(max_steps=300)
    )
    together = ensemble(alone, A, V)
    single = jax.jit(alone)
    assert len(set(together.code.tolist())) >= 2
    for i in range(len(A)):
        one = single(jnp.asarray(A[i]), jnp.asarray(V[i]))
        assert int(one.code) == int(together.code[i])
        assert int(one.n_saved) == int(together.n_saved[i])
        assert int(one.n_accepted) == int(together.n_accepted[i])
        # Near a blow-up y^2 grows like 1 / (t* - t), and so does rounding of the time.
        growth = float(jnp.max(jnp.abs(one.coordinates[1]))) ** 2 / 2.0
        for a, b in zip(one.coordinates, together.coordinates, strict=True):
            assert_close(b[i], a, ulps=max(1e4, 10 * growth))
        assert_close(together.stop_time[i], one.stop_time, ulps=1e4)
        assert np.isnan(one.t_star) == np.isnan(together.t_star[i])


def test_an_ensemble_of_clouds(key: Array):
    attention = Attention(Dot(-jnp.eye(2), jnp.eye(2)), Softmax(), jnp.eye(2))
    clouds = (
        jax.random.normal(key, (3, 6, 2)) * jnp.array([0.1, 1.0, 3.0])[:, None, None]
    )
    alone = lambda x: flow(attention, Points.uniform(x), jnp.array([0.0, 1.0]))
    together = ensemble(alone, clouds)
    for i in range(3):
        assert_close(together.last[i], jax.jit(alone)(clouds[i]).last, ulps=1e4)


# Derivatives


def assert_gradient(fn: Callable, at: Array, *, h: float = 1e-4) -> None:
    """Reverse mode against a fourth-order difference, along three directions.

    Truncation is h^4; the solver's error is smooth in the parameters only to RTOL,
    which divided by h bounds the agreement.
    """
    both = jax.jit(jax.value_and_grad(fn))
    gradient = both(at)[1]
    assert jnp.all(jnp.isfinite(gradient))
    rng = np.random.default_rng(3)
    for _ in range(3):
        along = jnp.asarray(rng.normal(size=at.shape))
        f = lambda s, along=along: float(both(at + s * h * along)[0])
        slope = (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * h)
        got = float(jnp.sum(gradient * along))
        assert abs(got - slope) <= 10 * RTOL / h * max(1, abs(slope))


WEIGHTS = jnp.array([[0.3, -1.0], [0.7, 0.2]])


def seen(mu: Points | Gaussian) -> Array:
    """A number that sees mean and covariance."""
    return jnp.sum(WEIGHTS * mu.covariance) + mu.mean[0] - 2 * mu.mean[1]


def score_matrix(rng: np.random.Generator) -> Array:
    return jnp.asarray(rng.normal(size=(2, 2)) / 2)


@pytest.mark.parametrize("name", ["softmax", "l2", "sinkhorn"])
def test_gradients_of_a_gaussian_flow(name: str, rng: np.random.Generator):
    """With respect to A and to the start, at an isotropic one made from its moments."""

    def end(both: Array) -> Array:
        attention = attentions[name](both[:2], jnp.eye(2), jnp.eye(2))
        Sigma = (both[2:] + both[2:].T) / 2
        mu = Gaussian.from_moments(jnp.array([0.3, -0.2]), Sigma)
        return seen(flow(attention, mu, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.concatenate([score_matrix(rng), jnp.eye(2)]))


@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_gradients_at_a_singular_covariance(name: str, rng: np.random.Generator):
    """With respect to the factor: the covariance itself has an edge there."""
    attention = attentions[name](score_matrix(rng), jnp.eye(2), jnp.eye(2))

    def end(Y: Array) -> Array:
        mu = Gaussian(jnp.array([0.3, -0.2]), Y)
        return seen(flow(attention, mu, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.array([[1.0, 0.0], [0.5, 0.0]]))


@pytest.mark.parametrize("name", ["softmax", "sinkhorn"])
def test_gradients_of_a_flow_of_points(name: str, rng: np.random.Generator):
    A, x = score_matrix(rng), jnp.asarray(rng.normal(size=(6, 2)))

    def end(both: Array) -> Array:
        attention = attentions[name](both[:2], jnp.eye(2), jnp.eye(2))
        cloud = Points.uniform(both[2:])
        return seen(flow(attention, cloud, jnp.array([0.0, 0.3])).final)

    assert_gradient(end, jnp.concatenate([A, x]))


def test_forward_mode_agrees_with_reverse_mode(rng: np.random.Generator):
    A = score_matrix(rng)
    mu = Gaussian(jnp.array([0.3, -0.2]), jnp.eye(2))
    make = lambda A: attentions["softmax"](A, jnp.eye(2), jnp.eye(2))
    times = jnp.array([0.0, 0.3])
    along = jnp.ones((2, 2))
    end = lambda adjoint: (
        lambda A: seen(flow(make(A), mu, times, adjoint=adjoint).final)
    )
    forward = jax.jit(lambda A: jax.jvp(end(ForwardMode()), (A,), (along,))[1])
    reverse = jax.jit(jax.grad(end(None)))
    assert_close(forward(A), jnp.sum(along * reverse(A)), ulps=1e5)


# What is refused, and how


def test_bad_times_are_refused():
    attention, mu = one_dimensional(-1.0, 1.0), spread(2.0)
    for bad in ([0.0, 1.0, 0.5], [], [[0.0, 1.0]], [0.0, np.nan], [0.0, np.inf]):
        with pytest.raises(InvalidInputError) as refusal:
            flow(attention, mu, bad)
        assert "\n" not in str(refusal.value)


def test_bad_starts_are_refused():
    one = np.eye(2)
    refusals = [
        lambda: Points.uniform([[0.0, np.nan]]),
        lambda: Points.uniform(np.zeros((0, 2))),
        lambda: Points.uniform([1.0, 2.0]),
        lambda: Points.weighted(one, [-1.0, 2.0]),
        lambda: Points.weighted(one, [0.0, 0.0]),
        lambda: Points.weighted(one, [1.0, 1.0, 1.0]),
        lambda: Points.uniform(one, position=[0.0]),
        lambda: Gaussian.from_moments(np.zeros(2), np.diag([1.0, -0.1])),
        lambda: Gaussian.from_moments(np.zeros(2), [[1.0, 0.5], [0.0, 1.0]]),
        lambda: Gaussian.from_moments(np.zeros(3), one),
        lambda: Gaussian.from_moments([0.0, np.inf], one),
    ]
    for refused in refusals:
        with pytest.raises(InvalidInputError) as refusal:
            refused()
        assert "\n" not in str(refusal.value)


def test_bad_steppings_are_refused():
    for refused in (
        lambda: fixed(0.0),
        lambda: fixed(-1.0),
        lambda: adaptive(rtol=0.0),
    ):
        with pytest.raises(InvalidInputError):
            refused()
    with pytest.raises(InvalidInputError, match="adaptive"):
        fixed(0.1, "kvaerno5")
    with pytest.raises(KeyError, match="tsit5"):
        adaptive("tsit")


def test_pairs_that_do_not_work_are_refused_before_the_solver():
    one = np.eye(2)
    with pytest.raises(NotClosedError):
        flow(
            attentions["exp"](one, one, one),
            Gaussian(jnp.zeros(2), jnp.eye(2)),
            [0.0, 1.0],
        )
    with pytest.raises(InvalidInputError, match="dimension"):
        flow(attentions["softmax"](one, one, one), spread(1.0), [0.0, 1.0])


def test_nothing_calls_back_to_the_host():
    """A callback would keep the persistent compilation cache from working."""
    code = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from meanfield._typing import Numbers
from meanfield.attention import attentions
from meanfield.measures import Points, Gaussian
from meanfield.flows import Steady, adaptive, fixed, flow
from meanfield.flows import _flow
import equinox as eqx
seen = []
inner = _flow._integrate
def spy(*args):
    seen.append("callback" in inner.lower(*args).as_text())
    raise InterruptedError
_flow._integrate = spy
def lower(*args, **options):
    try:
        flow(*args, [0.0, 1.0], **options)
    except InterruptedError:
        pass
one = jnp.eye(2)
for name in ("softmax", "sinkhorn"):
    attention = attentions[name](one, one, -one)
    lower(attention, Points.uniform(np.ones((3, 2))), stop=Steady())
lower(attention, Gaussian(jnp.zeros(2), one), stepping=fixed(0.5))
assert seen == [False] * 3, seen
"""
    import os
    import subprocess
    import sys

    environment = os.environ | {"EQX_ON_ERROR": "off"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
