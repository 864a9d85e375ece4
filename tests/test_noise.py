"""Noise on tokens and on Gaussians, against closed forms and on fixed paths."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float
from scipy.linalg import expm, solve_continuous_lyapunov
from typing_extensions import override

from meanfield._typing import Time
from meanfield.attention import Attention, attentions
from meanfield.dynamics import AbstractDynamics, stack_trees
from meanfield.errors import InvalidInputError
from meanfield.fields import AbstractField, Affine
from meanfield.flows import Isotropic, Steady, adaptive, ensemble, fixed, flow
from meanfield.measures import AbstractMeasure, Gaussian, Points

KAPPA = 0.3
L = np.array([[-1.0, 0.8], [-0.3, -0.5]])


class Drift(AbstractDynamics):
    """A prescribed linear field."""

    linear: Float[Array, "d d"]

    @override
    def field(self, t: Time, mu: AbstractMeasure) -> AbstractField:
        return Affine(self.linear, jnp.zeros(self.linear.shape[0]))

    @override
    def is_linearly_bounded(self, t: Time, mu: AbstractMeasure) -> Bool[Array, ""]:
        return jnp.ones((), bool)


def lyapunov(Sigma: np.ndarray, t: float) -> np.ndarray:
    """The covariance at `t` of a linear drift with noise."""
    rest, E = solve_continuous_lyapunov(L, -2 * KAPPA * np.eye(2)), expm(L * t)
    return rest + E @ (Sigma - rest) @ E.T


def line(name: str, A: float, V: float) -> Attention:
    identity = jnp.eye(1)
    return attentions[name](A * identity, identity, V * identity)


@pytest.mark.slow_cases("full")
@pytest.mark.parametrize(
    "factor",
    [
        np.array([[1.0, 0.2], [0.0, 0.5]]),
        np.array([[1.0], [2.0]]),
        np.array([[1.0, 0.3, 0.1], [0.0, 0.5, 2.0]]),
        np.zeros((2, 2)),
    ],
    ids=["full", "rank one", "wide", "Dirac"],
)
def test_a_gaussian_of_any_rank_follows_ornstein_and_uhlenbeck(factor: np.ndarray):
    mu = Gaussian(jnp.array([1.0, -2.0]), jnp.asarray(factor))
    ts = [0.0, 0.01, 1.0]
    path = flow(Drift(jnp.asarray(L)), mu, ts, noise=Isotropic(KAPPA))
    path.raise_for_status()
    for i, t in enumerate(ts):
        want = lyapunov(factor @ factor.T, t)
        # Steps of 4e-10 of what has grown so far, some hundred of them.
        np.testing.assert_allclose(
            path.frame(i).covariance, want, rtol=1e-7, atol=1e-12
        )
        np.testing.assert_allclose(
            path.frame(i).mean, expm(L * t) @ [1.0, -2.0], rtol=1e-7
        )


RESTS = {  # -2 s L(s) = 2 kappa in one dimension, solved by hand
    "softmax": (-1.0, 1.0, np.sqrt(KAPPA)),
    "l2": (1.0, -1.0, (KAPPA + np.sqrt(KAPPA**2 + 2 * KAPPA)) / 2),
    "sinkhorn": (-1.0, 1.0, np.sqrt(KAPPA * (1 + KAPPA))),
}


@pytest.mark.slow_cases("l2")
@pytest.mark.parametrize("name", list(RESTS))
def test_a_gaussian_rests_where_noise_and_attention_balance(name: str):
    A, V, want = RESTS[name]
    start = Gaussian(jnp.zeros(1), jnp.full((1, 1), 2.0))
    path = flow(
        line(name, A, V), start, [0.0, 200.0], stop=Steady(), noise=Isotropic(KAPPA)
    )
    assert path.status.ending == "steady"
    assert float(path.final.covariance[0, 0]) == pytest.approx(want, rel=1e-5)


@pytest.mark.slow
def test_an_ensemble_of_diracs_matches_single_flows():
    zero = jnp.zeros((1, 1))
    mu0s = stack_trees([Gaussian(jnp.full(1, mean), zero) for mean in (0.0, 1.0, 2.0)])
    attention = line("softmax", -1.0, 1.0)
    batched = ensemble(attention, mu0s, [0.0, 1.0], noise=Isotropic(KAPPA))
    s = np.sqrt(KAPPA) * np.tanh(2 * np.sqrt(KAPPA))  # s' = 2 kappa - 2 s^2
    np.testing.assert_allclose(batched.last[1][:, 0, 0] ** 2, s, rtol=1e-7)


def test_zero_diffusivity_gives_the_flow_without_noise():
    mu, attention = Gaussian(jnp.zeros(1), jnp.ones((1, 1))), line("softmax", -1.0, 1.0)
    quiet, plain = (
        flow(attention, mu, [0.0, 1.0], noise=noise) for noise in (Isotropic(0), None)
    )
    assert np.array_equal(quiet.last[1], plain.last[1])


@pytest.fixture(scope="module")
def free_paths():
    """Free tokens, by their number and steps."""

    def run(n: int, ts: list[float], dt: float = 0.25, start: float = 0.0) -> Array:
        still, x = Drift(jnp.zeros((2, 2))), jnp.full((n, 2), start)
        noise, key = (
            Isotropic(0.5),
            jax.random.key(7),
        )  # so that tokens are the Brownian motion itself
        stepping = fixed(dt, "shark")
        path = flow(
            still, Points.uniform(x), ts, stepping=stepping, noise=noise, key=key
        )
        return path.coordinates

    return run


@pytest.mark.slow
def test_noise_of_a_token_does_not_depend_on_others_frames_or_steps(
    free_paths: Callable,
):
    small = free_paths(3, [0.0, 0.7, 2.0])
    # Sums over other steps round otherwise.
    large = free_paths(5, [0.0, 2.0], 0.2)[-1, :3]
    np.testing.assert_allclose(small[-1], large, atol=1e-14)
    later_path = free_paths(3, [0.7, 2.0])[-1]
    np.testing.assert_allclose(later_path, small[2] - small[1], atol=1e-14)


@pytest.mark.slow
def test_noisy_steps_are_cut_at_integer_times(free_paths: Callable):
    """Paths are drawn per unit: 0.8 to 1.2 takes two steps of the same path."""
    coarse, fine = (free_paths(3, [0.5, 2.5], dt)[-1] for dt in (0.4, 0.25))
    np.testing.assert_allclose(coarse, fine, atol=1e-14)


@pytest.mark.slow
def test_noise_paths_are_brownian(free_paths: Callable):
    n = 20_000
    W = np.asarray(free_paths(n, [0.0, 0.3, 1.0, 1.5]))
    steps = np.diff(W, axis=0) / np.sqrt([0.3, 0.7, 0.5])[:, None, None]
    columns = steps.transpose(0, 2, 1).reshape(6, n)
    z = (columns @ columns.T / n - np.eye(6)) * np.sqrt(n / (1 + np.eye(6)))
    assert np.max(np.abs(z)) < 4.5  # 21 of them, normal
    assert np.max(np.abs(columns.mean(1))) * np.sqrt(n) < 4
    kurtosis = (columns**4).mean(1) - 3
    assert np.max(np.abs(kurtosis)) < 4.5 * np.sqrt(96 / n)


def test_noise_on_quarter_units_is_independent(free_paths: Callable):
    """The tree of midpoints halves each half with independent draws."""
    n = 5_000
    steps = np.diff(free_paths(n, [0.0, 0.25, 0.5, 0.75, 1.0]), axis=0) / 0.5
    columns = steps.transpose(0, 2, 1).reshape(8, n)
    z = (columns @ columns.T / n - np.eye(8)) * np.sqrt(n / (1 + np.eye(8)))
    assert np.max(np.abs(z)) < 4.5  # 36 of them, normal


@pytest.fixture(scope="module")
def attending_paths():
    """Few tokens with attention, on one path, by the length of the steps."""
    x = 1.5 * jax.random.normal(jax.random.key(1), (16, 1))

    def run(dt: float, ts: tuple[float, ...] = (0.0, 1.0), start: Array = x) -> Array:
        path = flow(
            line("softmax", -2.0, 1.0),
            Points.uniform(start),
            jnp.asarray(ts),
            stepping=fixed(dt, "shark"),
            noise=Isotropic(KAPPA),
            key=jax.random.key(5),
        )
        return path.last

    return run


@pytest.mark.slow
def test_shark_converges_on_a_path_faster_than_a_first_order_method(
    attending_paths: Callable,
):
    exact = attending_paths(1 / 256)
    errors = [
        float(jnp.linalg.norm(attending_paths(dt) - exact)) for dt in (1 / 8, 1 / 32)
    ]
    assert np.log(errors[0] / errors[1]) / np.log(4) > 1.3  # 1.5 in the mean


def test_an_interrupted_noisy_run_has_the_same_bits(attending_paths: Callable):
    whole = attending_paths(0.03, (0.0, 0.4, 0.8))
    half = attending_paths(0.03, (0.0, 0.4, 0.4))
    np.testing.assert_array_equal(attending_paths(0.03, (0.4, 0.8, 0.8), half), whole)


def test_a_batch_may_be_permuted():
    keys = jax.random.split(jax.random.key(2), 3)
    x = jax.random.normal(jax.random.key(3), (3, 8, 1))

    @eqx.filter_jit
    def last(x: Array, keys: Array) -> Array:
        single = lambda x, key: (
            flow(
                line("softmax", -1.0, 1.0),
                Points.uniform(x),
                np.array([0.0, 0.5]),
                stepping=fixed(0.1, "shark"),
                noise=Isotropic(KAPPA),
                key=key,
            ).last
        )
        return jax.vmap(single)(x, keys)

    order = np.array([2, 0, 1])
    np.testing.assert_array_equal(last(x, keys)[order], last(x[order], keys[order]))


@pytest.mark.slow
def test_batched_draws_have_the_noise_of_single_ones():
    """Steps are coarse, so that rounding does not change them."""
    attention, noise = line("softmax", -1.0, 1.0), Isotropic(KAPPA)
    keys, x = jax.random.split(jax.random.key(5), 4), np.linspace(-1, 1, 48)
    clouds = [Points.uniform(part[:, None]) for part in np.split(x, 4)]
    batched = ensemble(
        attention, stack_trees(clouds), [0.0, 2.0], noise=noise, key=keys
    )
    for row, (mu, key) in enumerate(zip(clouds, keys, strict=True)):
        single = flow(attention, mu, [0.0, 2.0], noise=noise, key=key)
        assert batched.n_accepted[row] == single.n_accepted
        np.testing.assert_allclose(batched.last[row], single.last, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_many_tokens_have_the_law_of_the_gaussian():
    n, x = 20_000, jax.random.normal(jax.random.key(4), (20_000, 2))
    path = flow(
        Drift(jnp.asarray(L)),
        Points.uniform(x),
        [0.0, 1.5],
        stepping=fixed(1 / 4, "shark"),
        noise=Isotropic(KAPPA),
        key=jax.random.key(6),
    )
    Sigma = lyapunov(np.eye(2), 1.5)
    spread = np.sqrt((np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / n)
    assert np.max(np.abs(path.final.covariance - Sigma) / spread) < 4
    assert np.max(np.abs(path.final.mean) / np.sqrt(np.diag(Sigma) / n)) < 4


@pytest.mark.slow
def test_attending_tokens_have_the_law_of_the_gaussian():
    n, s0 = 1500, 1.0
    x = jax.random.normal(jax.random.key(8), (n, 1))
    path = flow(
        line("softmax", -1.0, 1.0),
        Points.uniform(x),
        [0.0, 1.0],
        stepping=adaptive("shark", rtol=1e-2),
        noise=Isotropic(KAPPA),
        key=jax.random.key(9),
    )
    root = np.sqrt(KAPPA)  # s' = 2 kappa - 2 s^2 from s0
    s = root * np.tanh(2 * root + np.arctanh(root / s0)) ** -1
    z = (float(path.final.covariance[0, 0]) / s - 1) * np.sqrt(n / 2)
    assert abs(z) < 4


def test_combinations_without_noise_are_rejected_in_one_line():
    still, key = Drift(jnp.zeros((1, 1))), jax.random.key(0)
    cloud, noise = Points.uniform(jnp.ones((3, 1))), Isotropic(1.0)
    frame = Gaussian(jnp.zeros(1), jnp.ones((1, 1)))

    def assert_rejected(match: str, mu: AbstractMeasure, **options: Any):
        with pytest.raises(InvalidInputError, match=match) as error_info:
            flow(still, mu, [0.0, 1.0], **options)
        assert "\n" not in str(error_info.value)

    assert_rejected("`key`", cloud, noise=noise)
    assert_rejected("never come to rest", cloud, noise=noise, key=key, stop=Steady())
    assert_rejected("Tsit5 does not", cloud, noise=noise, key=key, stepping=adaptive())
    assert_rejected("Euler does not", cloud, noise=noise, key=key, stepping=fixed(0.1))
    assert_rejected("`shark` is a solver for", frame, stepping=adaptive("shark"))
    for bad in (-1.0, np.nan, [1.0, 2.0]):
        with pytest.raises(InvalidInputError, match="kappa"):
            Isotropic(bad)
