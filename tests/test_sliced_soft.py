"""Soft sorts along slices: dense matrices, limits, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import velocities, weights_of
from scipy.special import ndtri, softmax
from scipy.stats import ortho_group

from meanfield.attention import Attention, GaussianSoftSlices, SoftSlices, attentions
from meanfield.errors import InvalidInputError, NotClosedError
from meanfield.fields import Affine
from meanfield.flows import adaptive, flow
from meanfield.measures import Gaussian, Points

HARD = attentions["esp"]
SOFT = attentions["esp-soft"]
PUBLISHED = attentions["esp-soft-published"]

each_kind = pytest.mark.parametrize("kind", [SOFT, PUBLISHED])
each_power = pytest.mark.parametrize("power", [1, 2])


def sort_operator(v: np.ndarray, t: float, power: int) -> np.ndarray:
    """Rows of weights for each rank; shahbazi2025, eq. (7)."""
    places = np.sort(v)[:, None]
    return softmax(-(np.abs(places - v[None, :]) ** power) / t, axis=1)


def dense_plan(
    q: np.ndarray, k: np.ndarray, t: float, power: int, *, is_normalised: bool
) -> np.ndarray:
    n = len(q)
    plan = sort_operator(q, t, power).T @ sort_operator(k, t, power) / n
    return plan / (n * plan.sum(axis=1, keepdims=True)) if is_normalised else plan


@each_kind
@each_power
@pytest.mark.parametrize("tau", [0.0, 0.8])
def test_the_plan_matches_two_sort_operators(
    kind: object, power: int, tau: float, rng: np.random.Generator
):
    n, t = 30, 0.4
    Q, K, V = rng.normal(size=(3, 3, 3))
    x = np.add(rng.normal(size=(n, 3)), [5.0, 0.0, 0.0])
    slices = ortho_group.rvs(3, random_state=rng)
    options = {"slices": slices, "tau": tau, "temperature": t, "power": power}
    make = SOFT if kind is SOFT else PUBLISHED
    plan = weights_of(make(Q, K, V, **options), Points.uniform(x)) / n
    q, k = x @ Q.T, x @ K.T
    plans = np.array(
        [
            dense_plan(q @ theta, k @ theta, t, power, is_normalised=kind is SOFT)
            for theta in slices
        ]
    )
    distances = np.sum((q[:, None] - k[None]) ** 2, axis=2)
    costs = np.sum(plans * distances, axis=(1, 2))
    expected = np.tensordot(softmax(-tau * costs), plans, 1)
    np.testing.assert_allclose(plan, expected, rtol=1e-10, atol=1e-14)
    assert plan.sum() == pytest.approx(1, rel=1e-12)


def test_rows_sum_to_one_after_division(rng: np.random.Generator):
    """ERRATA H4: a published plan is not doubly stochastic, even up to its mass."""
    mu = Points.uniform(rng.normal(size=(100, 2)))
    parameters = rng.normal(size=(3, 2, 2))
    soft = weights_of(SOFT(*parameters, temperature=0.5), mu)
    published_weights = weights_of(PUBLISHED(*parameters, temperature=0.5), mu)
    np.testing.assert_allclose(soft.sum(axis=1), 1, rtol=1e-12)
    assert np.ptp(published_weights.sum(axis=1)) > 0.1
    assert np.ptp(soft.sum(axis=0)) > 0.1


def test_a_shift_moves_the_weights_of_slices_but_not_slices(rng: np.random.Generator):
    Q, K, V = rng.normal(size=(3, 2, 2))
    x, shift = rng.normal(size=(20, 2)), np.array([3.0, -2.0])
    gaps = []
    for tau in (0.0, 0.7):
        attention = SOFT(Q, K, V, tau=tau)
        gaps.append(
            np.max(
                np.abs(
                    soft_velocities(attention, x + shift)
                    - soft_velocities(attention, x)
                    - V @ shift
                )
            )
        )
    assert gaps[0] < 1e-12
    assert gaps[1] > 0.01


@pytest.mark.slow_cases("esp_soft")
@each_kind
def test_soft_sorts_approach_hard_ones_exponentially(
    kind: object, rng: np.random.Generator
):
    r"""Weights differ by at most about $n e^{-g^2/t}$, with $g$ the smallest gap."""
    n = 12
    Q, K, V = rng.normal(size=(3, 2, 2))
    mu = Points.uniform(rng.normal(size=(n, 2)))
    sides = [np.sort(mu.tokens.x @ M.T, axis=0) for M in (Q, K)]
    gap = min(float(np.min(np.diff(side, axis=0))) for side in sides)
    hard = weights_of(HARD(Q, K, V), mu)
    make = SOFT if kind is SOFT else PUBLISHED
    for decay in (5.0, 10.0, 20.0, 40.0):
        soft = weights_of(make(Q, K, V, temperature=gap**2 / decay), mu)
        error = np.max(np.abs(soft - hard))
        # The closest pair is confused by that much, on one side or on two.
        assert 0.1 * np.exp(-decay) - 1e-14 < error < 4 * n * np.exp(-decay) + 1e-14


@pytest.mark.slow_cases("2-0.5-esp_soft_published")
@each_kind
@pytest.mark.parametrize(
    ("power", "tau"),
    [
        (2, 0.5),
        *(
            pytest.param(*at, marks=pytest.mark.slow)
            for at in [(1, 0), (1, 0.5), (2, 0)]
        ),
    ],
)
def test_gradients_are_difference_quotients(
    kind: object, power: int, tau: float, rng: np.random.Generator
):
    Q, K, V = rng.normal(size=(3, 2, 2))
    x = jnp.asarray(rng.normal(size=(8, 2)))
    make = SOFT if kind is SOFT else PUBLISHED

    def total(x: jax.Array, K: jax.Array, t: jax.Array) -> jax.Array:
        options = {"tau": tau, "temperature": t, "power": power}
        mu = Points.uniform(x)
        return jnp.sum(make(Q, K, V, **options).field(0.0, mu)(mu.tokens) ** 2)

    at = (x, jnp.asarray(K), jnp.asarray(0.3))
    slopes, h = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(*at), 1e-5
    value = jax.jit(total)
    for place, slope in enumerate(slopes):
        way = np.zeros(slope.shape)
        way.flat[0] = h
        ends = [list(at), list(at)]
        ends[0][place], ends[1][place] = at[place] + way, at[place] - way
        quotient = (value(*ends[0]) - value(*ends[1])) / (2 * h)
        expected = pytest.approx(float(quotient), rel=1e-6, abs=1e-8)
        assert float(np.ravel(slope)[0]) == expected


@each_kind
def test_velocities_do_not_jump_where_ranks_are_exchanged(
    kind: object, rng: np.random.Generator
):
    Q, K, V = rng.normal(size=(3, 2, 2))
    x, h = rng.normal(size=(20, 2)), 1e-7
    make = SOFT if kind is SOFT else PUBLISHED
    normal = np.array([Q[0, 1], -Q[0, 0]])
    x[1] = x[0] + normal  # one place on the first slice
    clouds = [x.copy(), x.copy()]
    clouds[0][1] += h * Q[0]
    clouds[1][1] -= h * Q[0]
    jumps = {
        name: np.abs(np.subtract(*(soft_velocities(make_, z) for z in clouds))).max()
        for name, make_ in {"hard": HARD(Q, K, V), "soft": make(Q, K, V)}.items()
    }
    assert jumps["hard"] > 0.01
    assert jumps["soft"] < 1e3 * h


def soft_velocities(attention: Attention, x: np.ndarray) -> np.ndarray:
    mu = Points.uniform(x)
    return np.asarray(velocities(attention, mu, mu.tokens))


@pytest.mark.slow_cases("1.0")
@pytest.mark.parametrize("t", [1.0, 0.3, 0.1])
def test_the_closed_form_is_the_limit_of_quantiles(t: float):
    """Each velocity, not only their mean: on a line, of 3 000 quantiles."""
    n, k, v, mean, s = 3000, -0.7, 1.3, 0.4, 1.2
    x = mean + s * ndtri((np.arange(n) + 0.5) / n)
    attention = SOFT([[1.0]], [[k]], [[v]], temperature=t)
    gaussian = Gaussian.from_moments([mean], [[s**2]])
    closed = attention.field(0.0, gaussian)
    assert isinstance(closed, Affine)
    expected = np.asarray(closed.linear) * x + np.asarray(closed.offset)
    middle = np.abs(x - mean) < 2 * s  # where quantiles are dense
    np.testing.assert_allclose(
        soft_velocities(attention, x[:, None])[middle, 0],
        expected[0][middle],
        atol=2e-3,
    )


@pytest.mark.slow
def test_costs_in_closed_form_weigh_slices_as_tokens_do(rng: np.random.Generator):
    n, d = 4000, 3
    Q, K, V = rng.normal(size=(3, d, d))
    z = rng.normal(size=(n, d))
    z = (z - z.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, ddof=0))).T
    Y = rng.normal(size=(d, d))
    mu = Points.uniform(z @ Y.T + [1.0, 0.0, -2.0])
    attention = SOFT(Q, K, V, tau=0.2, temperature=0.7)
    gaussian = Gaussian.from_moments([1.0, 0.0, -2.0], Y @ Y.T)
    closed = attention.field(0.0, gaussian)
    assert isinstance(closed, Affine)
    x = np.asarray(mu.tokens.x)
    expected = x @ np.asarray(closed.linear).T + np.asarray(closed.offset)
    actual = np.asarray(velocities(attention, mu, mu.tokens))
    near = np.linalg.norm(z, axis=1) < 2
    scale = np.std(expected)
    assert np.max(np.abs(actual - expected)[near]) < 0.1 * scale
    even = SOFT(Q, K, V, temperature=0.7).field(0.0, gaussian)
    assert isinstance(even, Affine)
    closed_form = x @ np.asarray(even.linear).T + np.asarray(even.offset)
    assert np.max(np.abs(actual - closed_form)[near]) > 0.2 * scale


@pytest.mark.slow
def test_tokens_flow_as_their_gaussian_does_in_steps_of_any_length(
    rng: np.random.Generator,
):
    Q, K = np.array([[1, 0], [0.3, 1]]), np.array([[0, 1], [1, 0.2]])
    attention = SOFT(Q, K, -np.eye(2), temperature=0.5)
    z = rng.normal(size=(500, 2))
    z = np.concatenate([z, -z])
    z = z @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, ddof=0))).T
    start = Gaussian.from_moments(np.zeros(2), np.eye(2))
    exact = flow(attention, start, [0.0, 1.0]).final.covariance
    tokens = flow(
        attention, Points.uniform(z), [0.0, 1.0], stepping=adaptive(rtol=1e-3)
    )
    gap = np.linalg.norm(tokens.final.covariance - exact)
    assert gap < 0.03 * np.linalg.norm(exact)


def test_invalid_temperatures_and_missing_closed_forms_are_rejected():
    I = np.eye(2)
    with pytest.raises(InvalidInputError, match="`temperature` must be positive"):
        SOFT(I, I, I, temperature=0.0)
    with pytest.raises(InvalidInputError, match="`power` must be 1 or 2"):
        SOFT(I, I, I, power=3)
    gaussian = Gaussian.from_moments(np.zeros(2), I)
    for attention in (PUBLISHED(I, I, I), SOFT(I, I, I, power=1)):
        with pytest.raises(NotClosedError, match="does not keep Gaussians Gaussian"):
            attention.field(0.0, gaussian)
    coupling = SOFT(I, I, I, power=1).coupling
    assert isinstance(coupling, SoftSlices)
    with pytest.raises(InvalidInputError, match="this score; got `LineDistance`"):
        GaussianSoftSlices(coupling.directions, coupling.line_score)
