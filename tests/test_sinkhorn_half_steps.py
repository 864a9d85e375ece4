"""Sinkhorn attention with a fixed number of half-steps, as in trained networks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.special import logsumexp

from meanfield.attention import Attention, Sinkhorn, attentions, plans
from meanfield.dynamics import Prefix
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractReduction, Blocked, Dense, Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens


@pytest.mark.parametrize("iterations", [0, -1])
def test_half_steps_are_counted_from_one(iterations: int):
    with pytest.raises(InvalidInputError, match="at least 1"):
        attentions["sinkhorn"](np.eye(2), np.eye(2), np.eye(2), iterations=iterations)


def half_step_means(
    S: np.ndarray, log_p: np.ndarray, log_q: np.ndarray, y: np.ndarray, count: int
) -> np.ndarray:
    """Sums of `y` under the plan after `count` half-steps, rows first, with SciPy.

    `log_p` are log-weights of the rows, and `log_q` those of the columns.
    """
    f, g = np.zeros(len(S)), np.zeros(len(y))
    for i in range(count):
        if i % 2 == 0:
            f = -np.asarray(logsumexp(S + log_q + g, axis=1))
        else:
            g = -np.asarray(logsumexp(S + (log_p + f)[:, None], axis=0))
    return np.exp(S + f[:, None] + g + log_q) @ y


@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("iterations", [1, 2, 3, 6])
def test_dense_half_steps_match_scipy(
    d: int, iterations: int, rng: np.random.Generator
):
    """With a token of weight zero and a mass of 2.5, at the keys and elsewhere."""
    y, x = rng.normal(size=(8, d)), rng.normal(size=(5, d))
    w = np.array([1.0, 2, 0, 3, 1, 1, 1, 1]) / 4
    A, coupling = rng.normal(size=(d, d)), Sinkhorn(iterations=iterations)
    keys = Points(Tokens(jnp.asarray(y)), jnp.log(jnp.asarray(w)), Dense())
    queries = Points.uniform(x, reduction=Dense())
    score = Dot(A, np.eye(d), 2.0)
    means = jax.jit(lambda: coupling.barycentre(score, keys)(keys.tokens))()
    cross_field = lambda: coupling.cross_barycentre(score, queries, keys)
    cross_means = jax.jit(lambda: cross_field()(queries.tokens))()
    kept = w > 0
    log_w, y_kept = np.log(w[kept]), y[kept]
    S = y_kept @ A.T @ y_kept.T / 2
    expected = half_step_means(S, log_w, log_w, y_kept, iterations)
    np.testing.assert_allclose(means[kept], expected, rtol=1e-11, atol=1e-11)
    S = x @ A.T @ y_kept.T / 2
    expected = half_step_means(S, np.full(5, -np.log(5)), log_w, y_kept, iterations)
    np.testing.assert_allclose(cross_means, expected, rtol=1e-11, atol=1e-11)


def test_gradients_of_dense_half_steps_match_those_in_blocks(rng: np.random.Generator):
    """Blocks compute the scores again in each half-step."""
    x = jnp.asarray(rng.normal(size=(8, 6)))
    log_w = jnp.log(jnp.array([1.0, 2, 0, 3, 1, 1, 1, 1]))
    score, coupling = Dot(rng.normal(size=(6, 6)), np.eye(6), 2.0), Sinkhorn(4)

    def gradient(how: AbstractReduction) -> Callable[[Array], Array]:
        def objective(x: Array) -> Array:
            mu = Points(Tokens(x), log_w, how)
            return jnp.sum(jnp.sin(coupling.barycentre(score, mu)(mu.tokens)))

        return jax.jit(jax.grad(objective))

    dense, blocked = gradient(Dense())(x), gradient(Blocked())(x)
    np.testing.assert_allclose(dense, blocked, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("iterations", [2, 3])
def test_dense_half_steps_of_a_measure_without_mass_are_finite(iterations: int):
    """The first token of a causal sequence may be excluded."""
    log_w = jnp.log(jnp.array([0.0, 0.5, 0.5]))
    attention = Attention(
        Dot(jnp.eye(2), jnp.eye(2)), Sinkhorn(iterations=iterations), jnp.eye(2)
    )

    def measure(x: Array) -> Points:
        return Points(Tokens(x, jnp.array([0.2, 0.6, 1.0])), log_w, Dense())

    def velocities(x: Array) -> Array:
        return Prefix(attention).field(0.0, measure(x))(measure(x).tokens)

    x = jnp.array([[0.0, 1.0], [1.0, 0.5], [-1.0, 2.0]])
    values, gradient = jax.jit(
        lambda x: (velocities(x), jax.grad(lambda x: jnp.sum(velocities(x)))(x))
    )(x)
    assert jnp.isfinite(values).all()
    assert jnp.isfinite(gradient).all()
    plan = plans(Prefix(attention), 0.0, measure(x))[0]
    np.testing.assert_array_equal(plan[0], 0)
    assert jnp.isfinite(plan).all()
