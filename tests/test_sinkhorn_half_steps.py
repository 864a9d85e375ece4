"""Sinkhorn attention with a fixed number of half-steps, as in trained networks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from reference import Parameters, Sides, half_steps_across

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


@pytest.mark.parametrize("d", [1, 6])
@pytest.mark.parametrize("iterations", [1, 2, 3, 6])
def test_dense_half_steps_match_the_reference(
    d: int, iterations: int, rng: np.random.Generator
):
    """With a token of weight zero and a mass of 2.5, at the keys and elsewhere."""
    y, x = rng.normal(size=(8, d)), rng.normal(size=(5, d))
    w = np.array([1.0, 2, 0, 3, 1, 1, 1, 1]) / 4
    p = Parameters(rng.normal(size=(d, d)), np.eye(d), np.eye(d), epsilon=2.0)
    score, coupling = Dot(p.Q, p.K, p.epsilon), Sinkhorn(iterations=iterations)
    keys = Points(Tokens(jnp.asarray(y)), jnp.log(jnp.asarray(w)), Dense())
    queries = Points.uniform(x, reduction=Dense())
    cross_field = lambda: coupling.cross_barycentre(score, queries, keys)
    means = jax.jit(lambda: coupling.barycentre(score, keys)(keys.tokens))()
    cross_means = jax.jit(lambda: cross_field()(queries.tokens))()
    kept = w > 0
    y, w = y[kept], w[kept]
    for actual, z, u in ((means[kept], y, w), (cross_means, x, np.full(5, 0.2))):
        kernel = half_steps_across(p, z, Sides(z, u, y, w), iterations=iterations)
        expected = p.epsilon * kernel @ (w[:, None] * y)
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


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
