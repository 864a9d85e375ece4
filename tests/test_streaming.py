"""Streamed sums, and their power of two, against NumPy."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from meanfield.dynamics import Window, causal
from meanfield.measures import Blocked, Link, Points
from meanfield.measures.reductions.kernels import exp2
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance
from meanfield.tokens import Tokens

BLOCKS = (Blocked(), Blocked(64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_two_are_accurate(dtype: type, rng: np.random.Generator):
    """At most one unit in the last place, over the whole range."""
    info = np.finfo(dtype)
    x = rng.uniform(info.minexp, info.maxexp - 1, 100_000).astype(dtype)
    exact = np.exp2(x.astype(np.longdouble))
    actual = np.asarray(jax.jit(exp2)(x)).astype(np.longdouble)
    assert np.max(np.abs(actual - exact) / exact) <= info.eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_two_end_at_the_smallest_number(dtype: type):
    below = np.array([-np.inf, -1e30, np.finfo(dtype).minexp], dtype)
    assert np.all(np.asarray(exp2(jnp.asarray(below))) == np.finfo(dtype).tiny)
    whole = np.arange(-20, 20).astype(dtype)
    assert np.all(np.asarray(exp2(jnp.asarray(whole))) == np.exp2(whole))


def test_powers_of_two_have_derivatives_of_any_order():
    for order in range(1, 4):
        derivative = exp2
        for _ in range(order):
            derivative = jax.grad(derivative)
        expected = np.log(2) ** order * 2**0.3
        assert abs(float(derivative(jnp.asarray(0.3))) / expected - 1) < 1e-14


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_powers_of_two_have_second_derivatives_inside_loops(dtype: type, error: float):
    """JAX drops the first derivative's rule there; the polynomial's own is used."""
    x = jnp.asarray([0.3, 0.7, -1.1, 2.5], dtype)
    mapped = lambda x: jnp.sum(jax.lax.map(exp2, x))
    slope = jax.grad(mapped)
    over = jax.jit(lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),))[1])
    second_derivative = jax.jit(jax.grad(lambda x: jnp.sum(slope(x))))
    expected = np.log(2) ** 2 * np.exp2(np.asarray(x, np.float64))
    for second in (over, second_derivative):
        np.testing.assert_allclose(second(x), expected, rtol=error)


def brute(S: np.ndarray, w: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means and logarithms of exponential sums in extended precision."""
    S = S.astype(np.longdouble)
    has_weight = w > 0
    S = np.where(has_weight[None], S, -np.inf)
    top = np.max(S, axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    P = np.exp(S - top) * np.where(has_weight, w, 0)[None]
    mass = P.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(mass[:, None] > 0, P @ values / mass[:, None], 0)
        return means.astype(float), (top[:, 0] + np.log(mass)).astype(float)


def scores_of(kind: str, size: float, rng: np.random.Generator) -> AbstractScore:
    Q, K = size * rng.normal(size=(2, 3, 3))
    if kind == "distance":
        return SquaredDistance(Q, K)
    biases = {"query_bias": rng.normal(size=3), "key_bias": rng.normal(size=3)}
    dot = Dot(Q, K, **biases)  # pyright: ignore[reportArgumentType]
    masks = {"dot": None, "causal": causal, "window": Window(0.1)}
    mask = masks[kind]
    return dot if mask is None else Masked(dot, mask)


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
@pytest.mark.parametrize("size", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("kind", ["dot", "distance", "causal", "window"])
def test_exponential_sums_match_numpy(
    kind: str, size: float, blocks: Blocked, rng: np.random.Generator
):
    """Also where exponents span ten thousand without a known stabiliser."""
    n = 130
    x, w = rng.normal(size=(n, 3)), rng.uniform(size=n)
    w[[0, 7, n - 1]] = 0
    mu = Points.weighted(x, w, position=np.linspace(0, 1, n), reduction=blocks)
    score, tokens = scores_of(kind, size, rng), mu.tokens
    means = np.asarray(eqx.filter_jit(mu.tilted_mean)(score, tokens))
    logs = np.asarray(eqx.filter_jit(mu.log_integral)(score, tokens))
    exact = brute(np.asarray(score(tokens, tokens)), w / w.sum(), x)
    # Scores are as large as size², and their rounding counts.
    rounding = 1e-14 * (1 + 10 * size**2)
    np.testing.assert_allclose(means, exact[0], atol=rounding)
    np.testing.assert_allclose(logs, exact[1], rtol=1e-14, atol=rounding)


@pytest.mark.parametrize("kind", ["dot", "causal"])
@pytest.mark.parametrize("link", [jax.nn.sigmoid, jax.nn.relu, lambda s: s])
def test_linked_sums_match_numpy(kind: str, link: Link, rng: np.random.Generator):
    n = 130
    x, w = rng.normal(size=(n, 3)), rng.uniform(size=n)
    w[[0, 7, n - 1]] = 0
    score = scores_of(kind, 1.0, rng)
    tokens = Tokens(jnp.asarray(x), jnp.linspace(0, 1, n))
    S = np.asarray(score(tokens, tokens))
    out = np.isneginf(S)
    links = np.where(out, 0, np.asarray(link(jnp.where(out, 0, S))))
    expected = links @ (w[:, None] / w.sum() * x)
    for blocks in BLOCKS:
        mu = Points.weighted(x, w, position=tokens.position, reduction=blocks)
        actual = eqx.filter_jit(mu.integral)(link, score, tokens, mu.tokens.x)
        np.testing.assert_allclose(np.asarray(actual), expected, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_distant_scores_do_not_overflow_or_underflow(
    dtype: type, rng: np.random.Generator
):
    """Two tokens a million apart: one has the whole sum, or nothing."""
    x = np.array([[-1e3], [0.0], [1e3]], dtype)
    mu = Points.uniform(x, reduction=Blocked(2))
    score = Dot(np.eye(1, dtype=dtype), np.eye(1, dtype=dtype))
    means = np.asarray(mu.tilted_mean(score, mu.tokens))[:, 0]
    np.testing.assert_array_equal(means, np.array([-1e3, 0, 1e3], dtype))


def peak(fn: Callable[[Array], Array], argument: Array) -> int:
    """The temporary memory of a compiled function in bytes."""
    usage = jax.jit(fn).lower(argument).compile().memory_analysis()
    assert usage is not None
    return usage.temp_size_in_bytes


@pytest.mark.slow_cases("causal")
@pytest.mark.parametrize("kind", ["dot", "causal"])
def test_memory_grows_like_the_number_of_tokens(kind: str, rng: np.random.Generator):
    """For sums and their derivatives in both modes; one score matrix is 3.2 GB."""
    n = 20_000
    x = jnp.asarray(rng.normal(size=(n, 2)))
    dot = Dot(np.eye(2), np.eye(2))
    score = Masked(dot, causal) if kind == "causal" else dot
    place = jnp.linspace(0, 1, n)

    def velocities(x: Array) -> Array:
        mu = Points.uniform(x, position=place)
        return mu.tilted_mean(score, mu.tokens)

    tangent = lambda x: jax.jvp(velocities, (x,), (x,))[1]
    gradient = jax.grad(lambda x: jnp.sum(velocities(x) ** 2))
    blocks = 100e6 if jax.default_backend() == "cpu" else 1e9  # the larger, the faster
    for fn in (velocities, tangent, gradient):
        assert peak(fn, x) < blocks


def test_single_precision_keeps_its_digits(rng: np.random.Generator):
    """1e-6 of the largest velocity, for sums of many terms."""
    n, sample = 30_000, slice(0, None, 200)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    mu = Points.uniform(x)
    score = Dot(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    actual = np.asarray(
        eqx.filter_jit(mu.tilted_mean)(score, Tokens(mu.tokens.x[sample]))
    )
    S = x[sample].astype(float) @ x.T.astype(float)
    exact = brute(S, np.full(n, 1 / n), x.astype(float))[0]
    assert np.max(np.abs(actual - exact)) <= 1e-6 * np.max(np.abs(exact))


@pytest.mark.parametrize("kind", ["dot", "distance"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_scores_of_any_size_have_one_winner(
    d: int, dtype: type, kind: str, rng: np.random.Generator
):
    """Where rounding of scores is far above one, the largest of them has all."""
    identity = np.eye(d, dtype=dtype)
    score = (
        Dot(identity, identity)
        if kind == "dot"
        else SquaredDistance(identity, identity)
    )
    for radius in (1e6, 1e9, 3e9, 1e12, 1e15):
        x = (radius * rng.normal(size=(130, d))).astype(dtype)
        S = np.asarray(score(Tokens(jnp.asarray(x)), Tokens(jnp.asarray(x)))).astype(
            float
        )
        second, first = np.sort(S, axis=1)[:, -2:].T
        clear = first - second > 1e-3 * np.abs(S).max()
        assert clear.any()
        for blocks in BLOCKS:
            mu = Points.uniform(x, reduction=blocks)
            means = np.asarray(eqx.filter_jit(mu.tilted_mean)(score, mu.tokens))
            np.testing.assert_allclose(
                means[clear], x[np.argmax(S, axis=1)][clear], rtol=1e-5
            )
