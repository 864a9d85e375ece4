"""Flows against independent integrators, nodes and tokens, and in ensembles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import (
    VARIANTS_EXACT_AT_NODES,
    every_continuous_variant,
    every_gaussian_variant,
)
from flow_cases import RTOL, centred_gaussian, ensemble, scalar_attention
from helpers import Case, assert_close, case, gaussian, parameters, small_scores
from jaxtyping import Array
from reference import Parameters, gaussian_linear, velocity
from scipy.integrate import solve_ivp

from meanfield.attention import Attention, Softmax, attentions
from meanfield.dynamics import Heads, Interpolated, Layers, stack_trees
from meanfield.endings import Status
from meanfield.flows import adaptive, fixed, flow, solvers
from meanfield.measures import Gaussian, Points
from meanfield.measures.sampling import gauss_hermite, gaussian_draw
from meanfield.scores import Dot


def scipy_gaussian(
    name: str, p: Parameters, mu: Gaussian, t: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance at `t`, by DOP853 on the published equations."""
    d = mu.mean.shape[0]

    def rate(_: float, state: np.ndarray) -> np.ndarray:
        alpha, Sigma = state[:d], state[d:].reshape(d, d)
        L, b = gaussian_linear(name, p, Sigma, alpha)
        half = L @ Sigma
        return np.concatenate([L @ alpha + b, (half + half.T).ravel()])

    start = np.concatenate([np.asarray(mu.mean), np.asarray(mu.covariance).ravel()])
    end = solve_ivp(rate, (0, t), start, method="DOP853", rtol=1e-12, atol=1e-14)
    return end.y[:d, -1], end.y[d:, -1].reshape(d, d)


@pytest.mark.slow_cases("differential", "l2", "linear", "linear-expansion", "relu")
@every_gaussian_variant
def test_gaussians_follow_the_literature(name: str, rng: np.random.Generator):
    mu = gaussian(rng, 2, mean=name != "relu")
    p = parameters(rng, 2)
    t = 0.3
    trajectory = flow(attentions[name](p.Q, p.K, p.V, epsilon=p.epsilon), mu, [0.0, t])
    alpha, Sigma = scipy_gaussian(name, p, mu, t)
    assert trajectory.status == Status.FINISHED
    # Each step errs by RTOL of the size, and the flow stretches errors by e^{Lt} < 10.
    tolerance = 10 * RTOL * int(trajectory.n_accepted) * max(1, np.max(np.abs(Sigma)))
    assert np.max(np.abs(trajectory.final.mean - alpha)) <= tolerance
    assert np.max(np.abs(trajectory.final.covariance - Sigma)) <= tolerance


def mild(c: Case) -> Case:
    """Parameters with small values: far from any blow-up."""
    p = Parameters(c.p.Q, c.p.K, c.p.V / 4, c.p.epsilon)
    return Case(p, c.x / 2, c.w, c.probes)


@pytest.mark.slow_cases(
    "linear",
    "l2",
    "esp-soft",
    "esp-soft-published",
    "exp",
    "linear-expansion",
    "relu",
    "sinkhorn",
)
@every_continuous_variant
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
    tolerance = 10 * RTOL * max(10, int(trajectory.n_accepted)) * size
    assert np.max(np.abs(trajectory.last - expected)) <= tolerance


def test_parameters_that_change_with_time(rng: np.random.Generator):
    """Linear between nodes, against SciPy with the same parameters."""
    c = case(rng, n=5, d=2, epsilon=1.0)
    second = parameters(rng, 2, epsilon=1.0)
    make = attentions["softmax"]
    stack = stack_trees([make(c.p.Q, c.p.K, c.p.V), make(second.Q, second.K, second.V)])
    trajectory = flow(Interpolated([0.2, 0.7], stack), c.points(), [0.0, 1.0])

    def rate(t: float, state: np.ndarray) -> np.ndarray:
        s = np.clip((t - 0.2) / 0.5, 0, 1)
        blend = lambda a, b: (1 - s) * a + s * b
        p = Parameters(
            *map(blend, (c.p.Q, c.p.K, c.p.V), (second.Q, second.K, second.V))
        )
        x = state.reshape(c.x.shape)
        return velocity("softmax", p, x, x, c.w).ravel()

    state = c.x.ravel()
    for start, end in ((0, 0.2), (0.2, 0.7), (0.7, 1.0)):
        leg = solve_ivp(
            rate, (start, end), state, method="DOP853", rtol=1e-12, atol=1e-13
        )
        state = leg.y[:, -1]
    tolerance = 10 * RTOL * int(trajectory.n_accepted) * np.max(np.abs(state))
    assert np.max(np.abs(trajectory.last - state.reshape(c.x.shape))) <= tolerance


@pytest.mark.slow_cases("heun", "dopri8")
@pytest.mark.parametrize(
    "solver", sorted(set(solvers) - {"shark", "layer"})
)  # they need a diffusivity, and a sphere
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


# The integrator treats exact velocities alike: the slow run has all variants.
@pytest.mark.slow_cases("differential")
@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("softmax", "differential")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in VARIANTS_EXACT_AT_NODES
    ],
)
def test_nodes_follow_their_gaussian(name: str, rng: np.random.Generator):
    """To solver tolerance: quadrature is exact while scores stay small."""
    mu = gaussian(rng, 2, mean=name != "relu")
    p = small_scores(rng, 2, np.asarray(mu.factor))
    attention = attentions[name](p.Q, p.K, p.V / 4, epsilon=p.epsilon)
    nodes = gauss_hermite(mu, order=16)
    times = [0.0, 0.5]
    exact, of_nodes = flow(attention, mu, times), flow(attention, nodes, times)
    steps = int(exact.n_accepted) + int(of_nodes.n_accepted)
    for i in range(2):
        a, b = exact.frame(i), of_nodes.frame(i)
        assert np.max(np.abs(a.mean - b.mean)) <= 10 * RTOL * steps
        assert np.max(np.abs(a.covariance - b.covariance)) <= 10 * RTOL * steps


@pytest.mark.slow
def test_heads_and_layers_of_nodes_follow_their_gaussian(rng: np.random.Generator):
    mu = gaussian(rng, 2)
    heads = []
    for _ in range(2):
        ps = [small_scores(rng, 2, np.asarray(mu.factor)) for _ in range(2)]
        heads.append(
            Heads(stack_trees([attentions["softmax"](p.Q, p.K, p.V / 4) for p in ps]))
        )
    layers = Layers([0.0, 0.2, 0.5], stack_trees(heads))
    nodes = gauss_hermite(mu, order=16)
    exact, of_nodes = flow(layers, mu, [0.0, 0.5]), flow(layers, nodes, [0.0, 0.5])
    steps = int(exact.n_accepted) + int(of_nodes.n_accepted)
    gap = exact.final.covariance - of_nodes.final.covariance
    assert np.max(np.abs(gap)) <= 10 * RTOL * steps


@pytest.mark.slow
def test_random_tokens_converge_like_one_over_root_n(key: Array):
    """Root mean square over draws; the slope is -1/2 within three standard errors."""
    draws, sizes = 24, np.array([32, 128, 512, 1024])
    mu = Gaussian(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.5, 0.8]]))
    A = jnp.array([[-0.6, 0.3], [0.1, -0.4]])
    attention = Attention(Dot(A, jnp.eye(2)), Softmax(), jnp.eye(2))
    times, stepping = jnp.array([0.0, 0.5]), fixed(0.1)
    limit = flow(attention, mu, times, stepping=stepping).final.covariance
    keys = jax.random.split(key, draws)
    squares = []
    for n in sizes.tolist():

        def gap(batch: Array, n: int = n) -> Array:
            cloud = gaussian_draw(mu, n, key=batch)
            end = flow(attention, cloud, times, stepping=stepping).final
            return jnp.sum((end.covariance - limit) ** 2)

        squares.append(jax.jit(lambda ks: jax.lax.map(gap, ks))(keys))
    squares = np.array(squares)
    slopes = np.polyfit(np.log(sizes), np.log(squares.mean(1)) / 2, 1)[0]
    choose = np.random.default_rng(0).integers(draws, size=(400, draws))
    samples = [
        np.polyfit(np.log(sizes), np.log(squares[:, c].mean(1)) / 2, 1)[0]
        for c in choose
    ]
    error = np.std(samples)
    assert error < 0.1  # enough draws to distinguish -1/2 from 0 and -1
    assert abs(slopes + 0.5) < 3 * error


def test_members_of_an_ensemble_do_not_disturb_each_other():
    """Batched flows with different endings match single ones."""
    A = np.array([1.0, -1.0, 5.0, 0.0, -0.1])
    V = np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    times = jnp.array([0.0, 0.05, 0.4, 2.0])
    single_flow_of = lambda a, v: flow(
        scalar_attention(a, v),
        centred_gaussian(2.0),
        times,
        stepping=adaptive(max_steps=300),
    )
    batched = ensemble(single_flow_of, A, V)
    single = jax.jit(single_flow_of)
    assert len(set(batched.code.tolist())) >= 2
    for i in range(len(A)):
        single_flow = single(jnp.asarray(A[i]), jnp.asarray(V[i]))
        assert int(single_flow.code) == int(batched.code[i])
        assert int(single_flow.n_saved) == int(batched.n_saved[i])
        assert int(single_flow.n_accepted) == int(batched.n_accepted[i])
        # Near a blow-up y^2 grows like 1 / (t* - t), and so does rounding of the time.
        growth = float(jnp.max(jnp.abs(single_flow.coordinates[1]))) ** 2 / 2.0
        for a, b in zip(single_flow.coordinates, batched.coordinates, strict=True):
            assert_close(b[i], a, ulps=max(1e4, 10 * growth))
        assert_close(batched.stop_time[i], single_flow.stop_time, ulps=1e4)
        assert np.isnan(single_flow.t_star) == np.isnan(batched.t_star[i])


def test_an_ensemble_of_clouds(key: Array):
    attention = Attention(Dot(-jnp.eye(2), jnp.eye(2)), Softmax(), jnp.eye(2))
    clouds = (
        jax.random.normal(key, (3, 6, 2)) * jnp.array([0.1, 1.0, 3.0])[:, None, None]
    )
    flow_of = lambda x: flow(attention, Points.uniform(x), jnp.array([0.0, 1.0]))
    batched = ensemble(flow_of, clouds)
    for i in range(3):
        assert_close(batched.last[i], jax.jit(flow_of)(clouds[i]).last, ulps=1e4)
