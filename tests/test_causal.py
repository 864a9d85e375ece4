"""Causal sums between nodes: prefixes of tokens in any order of positions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from meanfield.attention import Attention
from meanfield.attention.softmax import Softmax
from meanfield.dynamics import Window, causal
from meanfield.errors import InvalidInputError
from meanfield.flows import plan_sums
from meanfield.measures import Blocked, Chebyshev, Points, use_exact_sums
from meanfield.scores import Dot, Masked, SquaredDistance
from meanfield.tokens import Tokens

N = 10_000  # a prefix of less than 4 096 keys is not interpolated


def prefix_means(
    score: Dot | SquaredDistance, x: np.ndarray, w: np.ndarray, s: np.ndarray, at: list
) -> tuple[np.ndarray, np.ndarray]:
    """Means over the tokens at a token's position and before, in NumPy."""
    S = np.asarray(score(Tokens(jnp.asarray(x[at])), Tokens(jnp.asarray(x))))
    P = np.exp(S) * (w / w.sum())[None] * (s[None] <= s[at][:, None])
    mass = P.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(mass[:, None] > 0, P @ x / mass[:, None], 0), np.log(mass)


@pytest.mark.parametrize("order", ["sorted", "shuffled", "equal in hundreds"])
@pytest.mark.parametrize("d", [1, 2])
def test_causal_sums_match_numpy(order: str, d: int, rng: np.random.Generator):
    x, w = rng.uniform(-1, 1, (N, d)), rng.uniform(size=N)
    s = np.arange(1, N + 1) / N
    if order != "sorted":
        s = rng.permutation(s)
    if order == "equal in hundreds":
        s = np.ceil(s * 12) / 12  # more at one position than a block has
    w[::7] = 0
    w[np.argsort(s, kind="stable")[:40]] = 0  # the first see nothing
    make = Dot if d == 1 else SquaredDistance
    score = make(*rng.normal(size=(2, d, d)) / d)
    mu = Points.weighted(x, w, position=s, reduction=Chebyshev(counts=(40, 36)[:d]))
    masked = Masked(score, causal)
    means = eqx.filter_jit(mu.tilted_mean)(masked, mu.tokens, None)
    logs = eqx.filter_jit(mu.log_integral)(masked, mu.tokens, None)
    at = [*np.argsort(s, kind="stable")[:60:6], *range(0, N, N // 50)]
    exact = prefix_means(score, x, w, s, at)
    np.testing.assert_allclose(np.asarray(means)[at], exact[0], atol=1e-11)
    np.testing.assert_allclose(np.asarray(logs)[at], exact[1], atol=1e-11)


@pytest.mark.slow
def test_a_plan_holds_the_tolerance_under_a_mask(rng: np.random.Generator):
    """At all tokens, against exact sums; nodes are used."""
    x, s = rng.normal(size=(20_000, 2)), np.arange(20_000) / 20_000
    attention = Attention(
        Masked(Dot(np.eye(2), np.eye(2)), causal), Softmax(), [[1.0, 0], [0, 1]]
    )
    mu = Points.uniform(x, position=s, reduction=Chebyshev(1e-6))
    plan = plan_sums(attention, mu, 0.0)
    assert isinstance(plan, Points)
    assert isinstance(plan.reduction, Chebyshev)
    velocities = eqx.filter_jit(lambda mu: attention.field(0.0, mu)(mu.tokens))
    exact = velocities(use_exact_sums(plan))
    error = jnp.max(jnp.abs(velocities(plan) - exact)) / jnp.max(jnp.abs(exact))
    assert 1e-14 < error <= 1e-6


def test_causal_sums_have_forward_derivatives(rng: np.random.Generator):
    x, s = rng.uniform(-1, 1, (N, 1)), np.arange(N) / N
    mu = Points.uniform(x, position=s, reduction=Chebyshev(counts=(32,)))

    def mean(mu: Points, a: Array) -> Array:
        score = Masked(Dot(a[None, None], np.eye(1)), causal)
        return mu.tilted_mean(score, mu.tokens, None)

    slope = jax.jit(lambda mu: jax.jvp(lambda a: mean(mu, a), (1.3,), (1.0,))[1])
    difference = mean(mu, jnp.asarray(1.3 + 1e-5)) - mean(mu, jnp.asarray(1.3 - 1e-5))
    np.testing.assert_allclose(slope(mu), difference / 2e-5, atol=1e-8)


def test_other_masks_are_summed_exactly(rng: np.random.Generator):
    x, s = rng.uniform(-1, 1, (2000, 1)), np.arange(2000) / 2000
    score = Masked(Dot(np.eye(1), np.eye(1)), Window(0.1))
    means = [
        Points.uniform(x, position=s, reduction=how).tilted_mean(
            score, Tokens(jnp.asarray(x), jnp.asarray(s)), None
        )
        for how in (Chebyshev(counts=(8,)), Blocked())
    ]
    assert np.array_equal(means[0], means[1])


def test_tokens_without_positions_are_rejected(rng: np.random.Generator):
    mu = Points.uniform(rng.normal(size=(100, 1)), reduction=Chebyshev(counts=(8,)))
    with pytest.raises(InvalidInputError, match="positions"):
        mu.tilted_mean(Masked(Dot(np.eye(1), np.eye(1)), causal), mu.tokens, None)
