"""Links as inner products of features: n terms instead of n² pairs."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close
from numpy.random import Generator

from meanfield import Blocked, Cross, Points, Tokens, attentions
from meanfield.attention import Attention, Linear
from meanfield.devices import spread
from meanfield.measures import Keys, Power
from meanfield.scores import AbstractScore, Dot, Masked, SquaredDistance, causal

EPSILON = 0.7


def scores(kind: type[AbstractScore], x: Any, y: Any, Q: Any, K: Any) -> Any:
    """Scores in NumPy, or in JAX to take derivatives."""
    if kind is Dot:
        return (x @ Q.T) @ (y @ K.T).T / EPSILON
    return -((x @ Q.T)[:, None] - (y @ K.T)[None]).__pow__(2).sum(axis=-1) / EPSILON


@pytest.mark.parametrize(
    ("kind", "degree", "masked"),
    [
        (Dot, 0, False),
        (Dot, 1, True),
        (Dot, 2, False),
        (SquaredDistance, 1, False),
        (SquaredDistance, 2, True),
    ],
)
def test_sums_of_powers_of_scores(
    kind: type[AbstractScore], degree: int, masked: bool, rng: Generator
) -> None:
    """With queries that are no keys, weights, an excluded key, equal positions."""
    x, y, Q, K = (rng.normal(size=s) for s in ((150, 2), (300, 2), (2, 2), (2, 2)))
    values, w = rng.normal(size=(300, 3)), rng.uniform(size=300)
    at, key_positions = rng.integers(0, 40, 150) / 40, rng.integers(0, 40, 300) / 40
    w[5], y[5] = 0.0, 0.0
    S = scores(kind, x, y, Q, K) ** degree
    S = np.where(key_positions[None] <= at[:, None], S, 0) if masked else S
    exact = S @ (w[:, None] * values)
    base = kind(Q, K, EPSILON)  # pyright: ignore[reportCallIssue]
    queries, keys = (
        Tokens(jnp.asarray(side), jnp.asarray(places))
        for side, places in ((x, at), (y, key_positions))
    )
    with np.errstate(divide="ignore"):
        side = Keys(keys, jnp.log(jnp.asarray(w)), jnp.asarray(values))
    score = Masked(base, causal) if masked else base
    actual = Blocked().integral(Power(degree), score, queries, side)
    np.testing.assert_allclose(actual, exact, atol=1e-12 * np.abs(exact).max())


def test_far_tokens_lose_no_digits_of_their_distances(rng: Generator) -> None:
    """Sums of squared distances a million radii from the origin, against NumPy."""
    x, identity = rng.normal(size=(60, 2)), np.eye(2)
    far = x + 1e6
    mu = Points.uniform(far)
    attention = Attention(SquaredDistance(identity, identity), Linear(), identity)
    S = -((far[:, None] - far[None]) ** 2).sum(axis=-1)
    ours = attention.field(0.0, mu)(mu.tokens)
    np.testing.assert_allclose(ours, S @ far / 60, rtol=1e-9)


@pytest.mark.parametrize("masked", [False, True])
def test_derivatives_of_linear_attention(masked: bool, rng: Generator) -> None:
    """Both modes, in tokens, matrices and weights, against the sum over pairs."""
    x, Q, K, V = (rng.normal(size=s) for s in ((140, 2), *3 * [(2, 2)]))
    logs, at = np.log(rng.uniform(0.5, 1, 140) / 140), rng.integers(0, 9, 140) / 9

    def ours(x: Any, Q: Any, logs: Any) -> jax.Array:
        score = Dot(Q, K, EPSILON)
        masked_score = Masked(score, causal) if masked else score
        mu = Points(Tokens(x, jnp.asarray(at)), logs)
        return jnp.sum(
            jnp.sin(Attention(masked_score, Linear(), V).field(0.0, mu)(mu.tokens))
        )

    def pairs(x: Any, Q: Any, logs: Any) -> jax.Array:
        S = scores(Dot, x, x, Q, K)
        S = jnp.where(at[None] <= at[:, None], S, 0) if masked else S
        return jnp.sum(jnp.sin((S * jnp.exp(logs)[None]) @ x @ V.T))

    where = tuple(map(jnp.asarray, (x, Q, logs)))
    along = tuple(jnp.asarray(rng.normal(size=part.shape)) for part in where)
    backward = (jax.jit(jax.grad(f, (0, 1, 2)))(*where) for f in (ours, pairs))
    for actual, exact in zip(*backward, strict=True):
        assert_close(actual, exact, scale=float(jnp.abs(exact).max()))
    forward = [jax.jvp(jax.jit(f), where, along)[1] for f in (ours, pairs)]
    np.testing.assert_allclose(*forward, rtol=1e-10)


@pytest.mark.parametrize("name", ["linear", "linear-expansion"])
def test_linear_attention_takes_as_many_terms_as_there_are_tokens(name: str) -> None:
    """For its own tokens and a context: no loop over pairs, and no array of them."""
    n, d, identity = 100_000, 2, np.eye(2)
    attention, x = attentions[name](identity, identity, identity), jnp.ones((n, d))
    across = Cross(attention, Points.uniform(jnp.ones((n, d))))
    for moves in (attention, across):
        velocities = lambda x, moves=moves: moves.field(0.0, Points.uniform(x))(
            Tokens(x)
        )
        sizes = list(numbers(jax.make_jaxpr(velocities)(x).jaxpr))
        assert sum(sizes) < 100 * n * d**2


def numbers(jaxpr: Any) -> Iterator[int]:
    """The sizes of intermediate arrays of a program; rejects loops."""
    for step in jaxpr.eqns:
        assert step.primitive.name not in ("scan", "while")
        yield sum(var.aval.size for var in step.outvars)
        for value in jax.tree.leaves(step.params, is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from numbers(inner)


def test_linear_attention_of_twenty_thousand_tokens(rng: Generator) -> None:
    """Against two products in NumPy; also of tokens spread over devices."""
    x, A, V = rng.normal(size=(20_000, 3)), *rng.normal(size=(2, 3, 3))
    moment = x.T @ x / len(x)
    spreads = moment - np.outer(x.mean(axis=0), x.mean(axis=0))
    linear = x @ (A.T @ moment @ V.T)
    expansion = (x.mean(axis=0) + x @ A.T @ spreads) @ V.T
    cases = ("linear", linear, np.float32), ("linear-expansion", expansion, np.float64)
    for name, exact, dtype in cases:
        Q, K, W, y = (np.asarray(part, dtype) for part in (A, np.eye(3), V, x))
        attention, mu = attentions[name](Q, K, W), Points.uniform(jnp.asarray(y))
        field = jax.jit(lambda mu, a=attention: a.field(0.0, mu)(mu.tokens))
        for where in (mu, spread(mu, 1)):
            errors = np.abs(np.asarray(field(where)) - exact).max()
            assert errors < 300 * float(np.finfo(dtype).eps) * np.abs(exact).max()


def test_a_general_mask_leaves_pairs_to_be_summed(rng: Generator) -> None:
    """No prefix contains all that a query sees."""
    x, at = rng.normal(size=(50, 2)), rng.permutation(50) / 50
    linear = attentions["linear"](np.eye(2), np.eye(2), np.eye(2))
    near = lambda s, t: jnp.abs(s - t) < 0.2
    masked = dataclasses.replace(linear, score=Masked(linear.score, near))
    mu = Points.uniform(x, position=at)
    S = np.where(np.abs(at[:, None] - at[None]) < 0.2, x @ x.T, 0)
    ours = masked.field(0.0, mu)(mu.tokens)
    np.testing.assert_allclose(ours, S @ x / 50, atol=1e-13)
