"""Expected sliced transport attention: POT, laws, steps, limits."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from attention_cases import velocities, weights_of
from conftest import CommandResult
from scipy.special import softmax

from meanfield.attention import (
    Attention,
    HardSlices,
    attentions,
    plans,
    variant_options,
)
from meanfield.attention.sliced._order import MIN_SIZE, argsort_rows
from meanfield.dynamics import Heads, Prefix, Sum, stack_trees
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.fields import Affine
from meanfield.flows import adaptive, fixed, flow
from meanfield.measures import Gaussian, Points
from meanfield.scores import Masked, SquaredDistance, causal

ESP = attentions["esp"]
Run = Callable[..., CommandResult]


def matrices(rng: np.random.Generator, d: int = 3) -> tuple[np.ndarray, ...]:
    return tuple(rng.normal(size=(3, d, d)))


def linear_of(attention: Attention, mu: Gaussian) -> np.ndarray:
    field = attention.field(0.0, mu)
    assert isinstance(field, Affine)
    return np.asarray(field.linear)


def directions_of(slices: object) -> np.ndarray:
    coupling = ESP(np.eye(3), np.eye(3), np.eye(3), slices=slices).coupling
    assert isinstance(coupling, HardSlices)
    return np.asarray(coupling.directions)


@pytest.mark.parametrize("tau", [0.0, 0.7])
@pytest.mark.parametrize("is_even", [True, False])
def test_the_plan_matches_pot(tau: float, is_even: bool, rng: np.random.Generator):
    """For plans of unequal weights POT 0.9.7 counts pairs, not masses."""
    n, slices = 40, rng.normal(size=(6, 3))
    Q, K, V = matrices(rng)
    x = rng.normal(size=(n, 3))
    w = np.full(n, 1 / n) if is_even else rng.dirichlet(np.ones(n))
    unit = slices / np.linalg.norm(slices, axis=1, keepdims=True)
    mu, q, k = Points.weighted(x, w), x @ Q.T, x @ K.T
    plan = w[:, None] * weights_of(ESP(Q, K, V, slices=slices, tau=tau), mu)
    if is_even or tau == 0:
        actual = ot.sliced.expected_sliced_plan(
            q, k, w, w, projections=unit.T, beta=tau
        )
        expected = np.asarray(actual[0])
    else:
        plans = np.array([ot.emd_1d(q @ theta, k @ theta, w, w) for theta in unit])
        costs = np.sum(plans * np.asarray(ot.dist(q, k)), axis=(1, 2))
        expected = np.tensordot(softmax(-tau * costs), plans, 1)
    np.testing.assert_allclose(plan, expected, atol=1e-12 / n)


def test_a_plan_is_doubly_stochastic_and_sparse(rng: np.random.Generator):
    """Exactly: each of 8 slices matches each token with one partner."""
    Q, K, V = matrices(rng)
    mu = Points.uniform(rng.normal(size=(64, 3)))
    attention = ESP(Q, K, V, slices="random:8")
    plan = 8 * weights_of(attention, mu)
    np.testing.assert_array_equal(plan, np.round(plan))
    np.testing.assert_array_equal(plan.sum(axis=0), 8)
    np.testing.assert_array_equal(plan.sum(axis=1), 8)
    assert np.count_nonzero(plan) <= 8 * 64


def test_tokens_in_one_place_share_their_partners(rng: np.random.Generator):
    """The lifted plan; any other choice would separate equal tokens."""
    Q, K, V = (np.round(2 * M) for M in matrices(rng))
    x = rng.integers(0, 3, size=(50, 3)).astype(float)
    mu = Points.weighted(x, rng.dirichlet(np.ones(50)))
    plan = np.asarray(mu.weights)[:, None] * weights_of(ESP(Q, K, V), mu)
    np.testing.assert_allclose(plan.sum(axis=0), mu.weights, rtol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=1), mu.weights, rtol=1e-12)
    v = np.asarray(velocities(ESP(Q, K, V), mu, mu.tokens))
    _, group = np.unique(x, axis=0, return_inverse=True)
    for label in range(group.max() + 1):
        np.testing.assert_allclose(
            np.ptp(v[np.ravel(group) == label], axis=0), 0, atol=1e-12
        )


def test_tokens_of_nearly_no_mass_move_no_others(rng: np.random.Generator):
    """Their masses vanish in cumulative sums between those of others."""
    n = 20
    attention = ESP(*matrices(rng), slices=4, tau=0.5)
    x, w = rng.normal(size=(n, 3)), rng.dirichlet(np.ones(n))
    is_light = rng.random(n) < 0.4
    heavy = Points.weighted(x[~is_light], w[~is_light])
    whole = Points.weighted(x, np.where(is_light, 1e-20, w))
    v = np.asarray(velocities(attention, whole, whole.tokens))
    heavy_velocities = velocities(attention, heavy, heavy.tokens)
    assert np.all(np.isfinite(v))
    np.testing.assert_allclose(v[~is_light], heavy_velocities, atol=1e-11)


def test_queries_equal_to_keys_are_matched_to_themselves(rng: np.random.Generator):
    """ERRATA N2: for every n; the closed form has another slope."""
    Q, _, V = matrices(rng)
    x = rng.normal(size=(500, 3))
    attention = ESP(Q, Q, V, slices="random:4")
    v = velocities(attention, Points.uniform(x), Points.uniform(x).tokens)
    np.testing.assert_allclose(v, x @ V.T, rtol=1e-12)
    linear = linear_of(attention, Gaussian.from_moments(np.zeros(3), np.eye(3)))
    assert np.linalg.norm(linear - V) > 0.1


@pytest.mark.slow_cases("0.5")
@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_the_closed_form_is_the_weak_limit(tau: float, rng: np.random.Generator):
    """Cov(v, x) of many tokens with exactly this empirical covariance."""
    n, d = 100_000, 3
    Q, K, V = matrices(rng, d)
    z = rng.normal(size=(n, d))
    z -= z.mean(axis=0)
    Y = np.linalg.cholesky(np.cov(z.T, ddof=0))
    x = z @ np.linalg.inv(Y).T @ rng.normal(size=(d, d)).T + [1.0, 0.0, -1.0]
    mu = Points.uniform(x)
    attention = ESP(Q, K, V, slices="random:5", tau=tau)
    v = np.asarray(velocities(attention, mu, mu.tokens))
    Sigma = np.cov(x.T, ddof=0)
    linear = linear_of(attention, Gaussian.from_moments(x.mean(axis=0), Sigma))
    actual = (v - v.mean(axis=0)).T @ (x - x.mean(axis=0)) / n
    # Partners are drawn anew for each n: errors of 1/sqrt(n), measured 0.2 to 0.9.
    size = np.linalg.norm(V) * np.trace(Sigma)
    np.testing.assert_allclose(
        actual, linear @ Sigma, rtol=0, atol=3 * size / np.sqrt(n)
    )
    np.testing.assert_allclose(v.mean(axis=0), V @ x.mean(axis=0), rtol=1e-10)


def test_gaussians_that_are_flat_on_a_slice_do_not_move_along_it():
    """Queries of N(0, [[9, 3], [3, 1]]) are all zero there, and match the mean.

    Lengths of rounding size, divided by themselves, gave a field of order one. Thin
    laws, however thin, are matched: the increasing map is that between N(0, 1)s.
    """
    make = lambda Q, **options: ESP(Q, np.eye(2), np.eye(2), **options)
    flat = Gaussian.from_moments(np.ones(2), [[9.0, 3.0], [3.0, 1.0]])
    attention = make([[1.0, -3.0], [1.0, 1.0]], slices=[[1.0, 0.0]])
    field = attention.field(0.0, flat)
    assert isinstance(field, Affine)
    _, change = flat.transport(field)
    np.testing.assert_array_equal(change, 0)
    np.testing.assert_allclose(field.offset, 1)
    tokens = Points.uniform([[4.0, 2.0], [-2.0, 0.0], [1.0, 1.0]])
    v = attention.field(0.0, tokens)(tokens.tokens)
    np.testing.assert_allclose(v, 1, rtol=1e-14)
    steep = Gaussian.from_moments(np.zeros(2), np.diag([1.0, 1e-20]))
    np.testing.assert_allclose(linear_of(make(np.eye(2)), steep), np.eye(2) / 2)


def test_rank_attention_needs_fixed_steps(rng: np.random.Generator):
    Q, K, V = matrices(rng, 2)
    attention, mu = ESP(Q, K, V / 4), Points.uniform(rng.normal(size=(30, 2)))
    trajectory = flow(attention, mu, [0.0, 1.0])
    assert int(trajectory.n_accepted) == 128
    x = np.asarray(mu.tokens.x)
    for _ in range(128):
        ranks = [np.argsort(np.argsort(x @ q)) for q in Q]
        partners = [x[np.argsort(x @ k)][r] for k, r in zip(K, ranks, strict=True)]
        x = x + np.mean(partners, axis=0) @ (V / 4).T / 128
    np.testing.assert_allclose(trajectory.last, x, rtol=1e-10)
    for dynamics in (attention, Prefix(attention), Heads(stack_trees([attention] * 2))):
        assert not dynamics.is_continuous
        with pytest.raises(InvalidInputError, match="exchange ranks"):
            flow(dynamics, mu, [0.0, 1.0], stepping=adaptive())
    gaussian = Gaussian.from_moments(np.zeros(2), np.eye(2))
    assert int(flow(attention, gaussian, [0.0, 1.0]).n_accepted) < 100


@pytest.mark.slow
def test_a_blow_up_with_rank_attention_is_predicted(rng: np.random.Generator):
    """Before steps beyond it, and within its error bar of small steps in NumPy.

    A pilot integration with the usual fine steps ended early, and found none.
    """
    Q, K = np.array([[1, 0.2], [0, 1]]), np.array([[0, 1], [1, 0.3]])
    I, x = np.eye(2), rng.normal(size=(20, 2))
    law = Sum(ESP(Q, K, -I), attentions["linear"](I, I, 2 * I))
    run = flow(law, Points.uniform(x), [0.0, 1.0])
    assert run.status == Status.BLOW_UP

    def rate(x: np.ndarray) -> np.ndarray:
        ranks = [np.argsort(np.argsort(x @ q)) for q in Q]
        partners = [x[np.argsort(x @ k)][r] for k, r in zip(K, ranks, strict=True)]
        return 2 * x @ (x.T @ x) / len(x) - np.mean(partners, axis=0)

    t, start = 0.0, np.linalg.norm(x)
    while np.linalg.norm(x) < 1e3 * start:  # what is left of the time is 1e-7
        v = rate(x)
        dt = 1e-3 * np.linalg.norm(x) / np.linalg.norm(v)
        x, t = x + dt * rate(x + dt / 2 * v), t + dt
    assert abs(run.t_star - t) < run.t_star_error < 0.02 * t


@pytest.mark.slow
def test_the_covariance_error_is_of_first_order(rng: np.random.Generator):
    """To first order, besides the randomness of the matching."""
    Q, K = np.array([[1, 0], [0.3, 1]]), np.array([[0, 1], [1, 0.2]])
    attention = ESP(Q, K, -np.eye(2))
    z = rng.normal(size=(20_000, 2))
    z = np.concatenate([z, -z])
    z = z @ np.linalg.inv(np.linalg.cholesky(np.cov(z.T, ddof=0))).T
    start = Gaussian.from_moments(np.zeros(2), np.eye(2))
    exact = flow(attention, start, [0.0, 1.0]).final.covariance
    gaps = {
        h: flow(
            attention, Points.uniform(z), [0.0, 1.0], stepping=fixed(h)
        ).final.covariance
        - exact
        for h in (1 / 8, 1 / 16, 1 / 32)
    }
    size = {h: float(jnp.linalg.norm(gap)) for h, gap in gaps.items()}
    assert size[1 / 8] / size[1 / 32] == pytest.approx(4, rel=0.2)
    assert size[1 / 32] < 0.03 * np.linalg.norm(exact)
    without = 2 * gaps[1 / 32] - gaps[1 / 16]
    assert np.linalg.norm(without) < 0.01 * np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ("spiral", "got `spiral`"),
        ("random:0", "got `random:0`"),
        ("random:3:4:5", "COUNT"),
        ("random:two", "COUNT"),
        ([[1.0, 0.0]], "rows with 3 columns"),
        ([[0.0, 0.0, 0.0]], "nonzero rows"),
        (2.5, "COUNT"),
        ("random:20000", "from 1 to 10000"),
    ],
)
def test_invalid_slices_are_rejected(slices: object, message: str):
    with pytest.raises(InvalidInputError, match=message):
        ESP(np.eye(3), np.eye(3), np.eye(3), slices=slices)


def test_a_plan_of_many_slices_fits_in_memory(rng: np.random.Generator):
    """All at once would take 72 MB, plus gathered arrays."""
    Q, K, V = matrices(rng)
    attention, x = ESP(Q, K, V, slices=100), rng.normal(size=(300, 3))
    plan = lambda x: plans(attention, 0.0, Points.uniform(x))
    usage = jax.jit(plan).lower(jnp.asarray(x)).compile().memory_analysis()
    assert usage is not None
    assert usage.temp_size_in_bytes < 20e6


@pytest.mark.parametrize("name", ["esp", "esp-soft", "esp-soft-published"])
def test_scores_that_cannot_be_projected_are_rejected(name: str):
    I = np.eye(2)
    attention = attentions[name](I, I, I)
    mu = Points.uniform(I, position=np.array([0.0, 1.0]))
    masked, distance_score = Masked(attention.score, causal), SquaredDistance(I, I)
    for score, message in (
        (masked, "Wrap the attention in `Prefix`"),
        (distance_score, "needs a `Dot` score; got `SquaredDistance`"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            Attention(score, attention.coupling, I).field(0.0, mu)


@pytest.mark.parametrize("name", ["esp", "esp-soft"])
@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_gradients_are_finite_where_a_slice_sees_no_keys(
    name: str, tau: float, rng: np.random.Generator
):
    """The second axis is in the kernel of the transpose of K, of rank one."""
    Q, V, Y = rng.normal(size=(3, 2, 2))
    K, mu = np.array([[0.7, -0.4], [0.0, 0.0]]), Gaussian(jnp.ones(2), jnp.asarray(Y))

    def total(Q: jax.Array, K: jax.Array) -> jax.Array:
        field = attentions[name](Q, K, V, tau=tau).field(0.0, mu)
        assert isinstance(field, Affine)
        return jnp.sum(field.linear**3)

    at, h = (jnp.asarray(Q), jnp.asarray(K)), 1e-5
    slopes = jax.grad(total, argnums=(0, 1))(*at)
    assert all(bool(jnp.all(jnp.isfinite(slope))) for slope in slopes)
    for place in range(2):
        step = h * np.eye(2, 4)[place].reshape(2, 2)  # in the first row
        for way, slope in zip(
            ((step, 0 * step), (0 * step, step)), slopes, strict=True
        ):
            ends = [total(at[0] + s * way[0], at[1] + s * way[1]) for s in (1, -1)]
            quotient = float(ends[0] - ends[1]) / (2 * h)
            assert float(slope[0, place]) == pytest.approx(quotient, rel=1e-6)


def test_random_slices_are_unit_vectors_of_their_seed():
    rows = [directions_of(name) for name in (4, "random:4", "random:7")]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2][:4])
    np.testing.assert_allclose(np.linalg.norm(rows[2], axis=1), 1)
    assert np.all(directions_of("random:4:1") != rows[0])


def test_variant_options_are_applied_and_unknown_ones_rejected(cli: Run):
    spec = ("simulate", "--d", "2", "--n", "20", "--t", "0.1", "--frames", "2")
    esp = (*spec, "--attention", "esp")
    result = cli(*esp, "--options", "slices=[[1,0]],tau=2", "--json")
    assert result.code == 0
    for options, message in {
        "tau=1,tau=2": "each name may be given only once",
        "temperature=1": "has no option `temperature`",
        "slices=[[1,0,0]]": "rows with 2 columns",
        "tau": "takes NAME=VALUE",
    }.items():
        result = cli(*esp, "--options", options)
        assert result.code == 2
        assert message in result.err
    assert "it has none" in cli(*spec, "--options", "tau=1").err
    assert "exchange ranks" in cli(*esp, "--rtol", "1e-5").err
    assert list(variant_options("esp")) == ["slices", "tau"]
    assert "lambda" in variant_options("differential")


def test_a_sweep_varies_an_option(cli: Run):
    result = cli(
        "sweep", "--attention", "esp", "--measure", "gaussian", "--over",
        "options.tau=0|2", "--Q", "[[1,0],[0,2]]", "--K", "[[0,1],[1,1]]",
        "--t", "0.5", "--out", "taus",
    )  # fmt: skip
    assert result.code == 0
    table = np.genfromtxt("taus/table.csv", delimiter=",", names=True, dtype=None)
    assert table["trace"][0] != table["trace"][1]
    assert cli("plot", "taus", "--panel", "phase").code == 0


def test_gradients_pass_through_partners(rng: np.random.Generator):
    """Ranks are constant between ties: the derivative is that of the mean of keys."""
    Q, K, V = matrices(rng, 2)
    x = jnp.asarray(rng.normal(size=(10, 2)))

    @jax.jit
    def total(x: jax.Array) -> jax.Array:
        mu = Points.uniform(x)
        return jnp.sum(ESP(Q, K, V).field(0.0, mu)(mu.tokens) ** 2)

    slope, h = jax.jit(jax.grad(total))(x), 1e-6
    for i in range(2):
        step = h * jnp.eye(20)[i].reshape(10, 2)
        quotient = (total(x + step) - total(x - step)) / (2 * h)
        assert float(jnp.vdot(slope, step) / h) == pytest.approx(float(quotient), 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["distinct", "ties", "zeros", "infinite", "nan"])
def test_sorting_as_integers_matches_numpy_order(
    kind: str, dtype: str, rng: np.random.Generator
):
    places = rng.permutation(np.linspace(-2, 3, MIN_SIZE + 5)).astype(dtype)
    ends = {"ties": (1, 1), "zeros": (0.0, -0.0), "infinite": (np.inf, -np.inf)}
    places[[7, 11]] = ends.get(kind, places[[7, 11]])
    if kind == "nan":
        places[[3, 8]] = np.nan, -np.nan
    order = np.asarray(argsort_rows(jnp.asarray(places)[None])[0])
    np.testing.assert_array_equal(np.sort(order), np.arange(len(places)))
    np.testing.assert_array_equal(places[order], np.sort(places))
