"""Flows in one dimension and finite-time blow-up: closed forms and their times."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import centred_gaussian, ensemble, scalar_attention
from jaxtyping import Array

from meanfield.attention import Attention, Softmax, attentions
from meanfield.dynamics import AbstractDynamics, Layers, stack_trees
from meanfield.endings import Status
from meanfield.errors import SimulationError
from meanfield.flows import Trajectory, adaptive, flow
from meanfield.flows.watch import is_bounded_by_kind
from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.scores import Dot


def test_the_variance_of_softmax_in_dimension_one():
    """castin2025, Prop. 4.3: s = 1 / (1/s0 - 2avt), so 2/41 here."""
    trajectory = flow(scalar_attention(-1.0, 1.0), centred_gaussian(2.0), [0.0, 10.0])
    assert abs(trajectory.final.covariance[0, 0] - 2 / 41) < 1e-9


def test_the_blow_up_of_softmax_in_dimension_one():
    trajectory = flow(scalar_attention(1.0, 1.0), centred_gaussian(2.0), [0.0, 10.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 0.25) < 1e-6
    assert abs(trajectory.t_star - 0.25) <= trajectory.t_star_error
    assert trajectory.t_star_error < 1e-6
    assert trajectory.stop_time < 0.25
    trajectory.raise_for_status()  # a blow-up is a result


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize("name", ["l2", "sinkhorn"])
def test_l2_and_sinkhorn_never_blow_up_in_dimension_one(
    name: str, rng: np.random.Generator
):
    """castin2025, Prop. 4.13 and after 4.15: they grow at most exponentially."""
    A, V = rng.normal(size=(2, 40)) * 2
    A[0], V[0] = 1.0, 1.0
    fate = lambda a, v: flow(
        scalar_attention(a, v, name=name), centred_gaussian(2.0), [0.0, 10.0]
    )
    codes = ensemble(fate, A, V).code
    assert not np.any(codes == int(Status.BLOW_UP))
    assert codes[0] == int(Status.FINISHED)


@pytest.mark.slow
def test_growth_to_overflow_is_not_a_blow_up():
    """L2 in dimension one grows like e^{2t}: past 1e154 by t = 355, 1e308 by 710."""
    attention = scalar_attention(1.0, 1.0, name="l2")
    long = flow(attention, centred_gaussian(2.0), jnp.linspace(0.0, 1000.0, 5))
    assert long.status == Status.NOT_FINITE
    assert jnp.isnan(long.t_star)
    assert jnp.all(jnp.isfinite(long.last[1]))
    assert long.last[1] > 1e150  # where its square, the variance, overflows
    with pytest.raises(SimulationError, match="not-finite"):
        long.raise_for_status()


def test_particles_of_linear_attention_blow_up_on_time():
    """In dimension one x' = a v m x with m = E x^2, so m = 1 / (1/m0 - 2avt)."""
    x = np.array([[-1.0], [0.5], [2.0]])
    w = np.array([0.5, 0.3, 0.2])
    m0 = float(w @ x[:, 0] ** 2)
    attention = scalar_attention(0.7, 1.5, name="linear")
    trajectory = flow(attention, Points.weighted(x, w), [0.0, 10.0])
    expected = 1 / (2 * 0.7 * 1.5 * m0)
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - expected) <= 1e-6 * expected
    assert abs(trajectory.t_star - expected) <= trajectory.t_star_error


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
@pytest.mark.parametrize(
    ("dtype", "digits"),
    [(np.float64, 1e-6), pytest.param(np.float32, 1e-3, marks=pytest.mark.slow)],
)
def test_a_hundred_commuting_cases_end_as_predicted(
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

    actual = ensemble(fate, *(a.astype(dtype) for a in (A, V, Sigma, times)))
    expected = np.where(blows_up, int(Status.BLOW_UP), int(Status.FINISHED))
    assert np.array_equal(actual.code, expected)
    error = np.abs(np.asarray(actual.t_star) - t_star)[blows_up]
    assert np.all(error <= digits * t_star[blows_up])
    # The law is as good as the steps: eps^0.6 is what one of them may miss.
    assert np.median(error / t_star[blows_up]) <= np.finfo(dtype).eps ** 0.6 / 4
    assert np.all(error <= np.asarray(actual.t_star_error)[blows_up])
    assert np.all(np.isnan(np.asarray(actual.t_star)[~blows_up]))


@pytest.mark.slow_cases("0.0")
@pytest.mark.parametrize("gap", [0.0, 1e-6, 1e-3, 0.1])
def test_blow_ups_that_nearly_coincide(gap: float):
    Sigma = np.diag([1.0, 1.0 - gap, 0.9])
    attention = Attention(Dot(np.eye(3), np.eye(3)), Softmax(), np.eye(3))
    trajectory = flow(attention, Gaussian.from_moments(np.zeros(3), Sigma), [0.0, 2.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 0.5) <= min(1e-6, float(trajectory.t_star_error))


def test_l2_with_a_singular_key_matrix_blows_up_at_three():
    """ERRATA C11: against Lemma 4.12, with growth that is no power law at first."""
    K, Q = np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]])
    attention = attentions["l2"](Q, K, np.diag([0.0, 1.0]))
    Sigma = np.array([[1.0, 0.5], [0.5, 1.0]])
    mu = Gaussian.from_moments(np.zeros(2), Sigma)
    trajectory = flow(attention, mu, [0.0, 1.5, 2.7, 10.0])
    assert trajectory.status == Status.BLOW_UP
    assert abs(trajectory.t_star - 3) <= min(3e-6, float(trajectory.t_star_error))
    for i, t in ((1, 1.5), (2, 2.7)):
        covariance = trajectory.frame(i).covariance
        assert abs(covariance[0, 1] - 1 / (2 - 2 * t / 3)) < 1e-6


@pytest.mark.slow_cases("1e-06")
@pytest.mark.parametrize("rtol", [1e-6, None])
def test_few_steps_before_a_blow_up_are_rejected(rtol: float | None):
    """Plain error control rejects a step for each accepted one; the trend does not."""
    steps = adaptive(rtol=rtol)
    flown = flow(
        scalar_attention(1.0, 1.0), centred_gaussian(2.0), [0.0, 10.0], stepping=steps
    )
    assert flown.status == Status.BLOW_UP
    assert flown.n_rejected <= 0.15 * flown.n_accepted


def test_a_token_at_rest_takes_ever_longer_steps():
    """Zero errors have no trend."""
    flown = flow(scalar_attention(1.0, 1.0), Points.uniform([[0.0]]), [0.0, 1e9])
    assert flown.status == Status.FINISHED
    assert flown.n_accepted <= 30


def test_a_jump_to_fast_layers_is_not_a_blow_up():
    """Rates that jump by 1e6 between layers still give exponential growth."""
    token = Points.uniform([[1.0, 0.5]])
    still = jnp.zeros((2, 2))
    rates = [1.0, 1e6, 1.0]
    members = [Attention(Dot(still, still), Softmax(), r * jnp.eye(2)) for r in rates]
    layers = Layers([0.0, 1.0, 1.0 + 2e-5, 2.0], stack_trees(members))
    trajectory = flow(layers, token, [0.0, 2.0])
    assert trajectory.status == Status.FINISHED
    expected = np.exp(1 + 20 + (1 - 2e-5))
    # The layer is 2e-5 long to within rounding of its edges: 1e6 * 2e-16 relative.
    assert abs(trajectory.last[0, 0] / expected - 1) < 1e-6


def test_ever_faster_layers_are_not_a_blow_up():
    """Each layer is ten times as fast for a tenth as long: only jumps look like it."""
    token = Points.uniform([[1.0]])
    zero = jnp.zeros((1, 1))
    rates = 10.0 ** jnp.arange(8)
    members = [Attention(Dot(zero, zero), Softmax(), r * jnp.eye(1)) for r in rates]
    edges = np.concatenate([[0.0], np.cumsum(1.0 / np.asarray(rates))])
    trajectory = flow(
        Layers(edges, stack_trees(members)), token, [0.0, float(edges[-1])]
    )
    assert trajectory.status == Status.FINISHED


@pytest.mark.parametrize(
    ("dtype", "near", "bar"),
    [
        (np.float64, 1e-8, 3e-5),
        pytest.param(np.float32, 1e-4, 0.3, marks=pytest.mark.slow),
    ],
)
def test_a_blow_up_is_attributed_to_its_layer(dtype: type, near: float, bar: float):
    """1/s falls by 2V per unit of time: from V = 1 it is zero at 1/2, but for edges.

    A layer that begins within the error of that time may slow growth or end it.
    """
    V, before = np.array([[0.001, near], [0.001, 1e-3], [0.5, 1e-3], [-1, 4 * near]]).T
    V, before = np.append(V, [1.0, -1.0]), np.append(before, [-1e-5 * near, -0.1])
    edges = (dtype(0.5) * (1 - before)).astype(dtype)

    def fate(edge: Array, value: Array) -> Trajectory:
        members = [scalar_attention(dtype(1), v) for v in (dtype(1), value)]
        layers = Layers(jnp.stack([0 * edge, edge, 0 * edge + 9]), stack_trees(members))
        return flow(layers, centred_gaussian(1.0, dtype), np.array([0, 3], dtype))

    ends = ensemble(fate, edges, V.astype(dtype))
    left = np.maximum(1 - 2 * edges.astype(float), 0)
    exact = np.where(before > 0, edges + left / (2 * V), 0.5)
    is_blow_up = np.asarray(ends.code) == int(Status.BLOW_UP)
    np.testing.assert_array_equal(is_blow_up, [True] * 3 + [False] + [True] * 2)
    assert np.all(
        np.abs(ends.t_star - exact)[is_blow_up] <= ends.t_star_error[is_blow_up]
    )
    assert np.all(ends.t_star_error[is_blow_up] < bar * exact[is_blow_up])
    assert ends.code[3] == int(Status.FINISHED)
    rest = 1 / (left[3] + 2 * (3 - edges[3]))
    assert abs(ends.last[1][3, 0, 0] ** 2 / rest - 1) < 1e3 * np.finfo(dtype).eps ** 0.6


def test_a_jump_within_the_error_bar_leaves_a_blow_up_undecided():
    """Steps err by 3e-10 in the time of this blow-up: the order is not known."""
    after = np.array([1e-6, 1e-7, 1e-10, 1e-13, 0, -1e-13, -1e-10, -1e-7, -1e-6])

    def fate(edge: Array) -> Trajectory:
        members = [scalar_attention(np.float64(1), v) for v in (1.0, -1.0)]
        layers = Layers(jnp.stack([0 * edge, edge, 0 * edge + 9]), stack_trees(members))
        return flow(layers, centred_gaussian(1.0, np.float64), np.array([0.0, 3.0]))

    ends = ensemble(fate, 0.5 + after)
    expected = np.full(9, int(Status.UNRESOLVED))
    expected[:2], expected[-2:] = int(Status.BLOW_UP), int(Status.FINISHED)
    np.testing.assert_array_equal(ends.code, expected)
    assert np.all(np.abs(ends.t_star[:2] - 0.5) <= ends.t_star_error[:2])


@pytest.mark.parametrize(
    ("name", "of_tokens", "of_gaussians"),
    [
        ("softmax", True, False),
        ("l2", True, False),  # a Gaussian's keys have to be injective
        ("sigmoid", True, True),
        ("sinkhorn", True, True),
        ("linear", False, False),
        ("exp", False, False),
    ],
)
def test_boundedness_by_kind_is_known_under_tracing(
    name: str, of_tokens: bool, of_gaussians: bool
) -> None:
    cloud = Points.uniform(np.ones((3, 2)))
    answers = []

    @eqx.filter_jit
    def ask(law: AbstractDynamics, mu: AbstractMeasure, ts: Array) -> None:
        answers.append(is_bounded_by_kind(law, mu, ts))

    attention = attentions[name](np.eye(2), np.eye(2), -np.eye(2))
    layers = Layers(jnp.array([0.0, 0.5, 1.0]), stack_trees([attention, attention]))
    for law in (attention, layers):
        for mu in (cloud, Gaussian(jnp.zeros(2), jnp.eye(2))):
            ask(law, mu, jnp.array([0.0, 1.0]))
    assert answers == 2 * [of_tokens, of_gaussians]
