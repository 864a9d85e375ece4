"""`WithGradient`: functions with a gradient of their own, against closed forms."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield._derivatives import WithGradient

X = jnp.linspace(0.1, 1.0, 5)
SHIFT = jnp.asarray(0.3)


CALLS: list[str] = []


def sine(x: jax.Array, shift: jax.Array) -> jax.Array:
    return jnp.sin(x + shift)


def gradient_of_sine(x: jax.Array, shift: jax.Array, cotangent: jax.Array) -> tuple:
    CALLS.append("gradient")
    return (jnp.cos(x + shift) * cotangent,)


wave = WithGradient(sine, gradient_of_sine, sine, n_variables=1)


def total(x: jax.Array) -> jax.Array:
    return jnp.sum(wave(x, SHIFT))


def repeated(x: jax.Array) -> jax.Array:
    """Three applications, inside a loop."""
    step = lambda y, _: (wave(y, SHIFT), None)
    return jnp.sum(jax.lax.scan(step, x, None, length=3)[0])


def test_reverse_mode_calls_the_gradient():
    CALLS.clear()
    np.testing.assert_allclose(jax.grad(total)(X), jnp.cos(X + SHIFT), rtol=1e-15)
    assert CALLS == ["gradient"]


def test_forward_mode_uses_the_reference():
    CALLS.clear()
    _, slope = jax.jvp(total, (X,), (jnp.ones_like(X),))
    assert float(slope) == pytest.approx(float(jnp.sum(jnp.cos(X + SHIFT))), rel=1e-15)
    assert CALLS == []


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_second_derivatives_in_all_modes(inner: Callable, outer: Callable):
    expected = -jnp.diag(jnp.sin(X + SHIFT))
    np.testing.assert_allclose(outer(inner(total))(X), expected, atol=1e-15)
    three = lambda x: jnp.sum(jnp.sin(jnp.sin(jnp.sin(x + SHIFT) + SHIFT) + SHIFT))
    actual = outer(inner(repeated))(X)
    np.testing.assert_allclose(actual, jax.hessian(three)(X), atol=1e-14)


def test_batches_of_variables_or_of_constants():
    shifts = jnp.asarray([0.0, 0.5, 1.0])
    gradient = jax.grad(lambda x, shift: jnp.sum(wave(x, shift)))
    batch = jax.jit(jax.vmap(gradient, in_axes=(None, 0)))(X, shifts)
    np.testing.assert_allclose(batch, jnp.cos(X[None] + shifts[:, None]), rtol=1e-15)
    common = jax.grad(lambda x: jnp.sum(jax.vmap(wave, (None, 0))(x, shifts)))(X)
    expected = jnp.sum(jnp.cos(X[None] + shifts[:, None]), axis=0)
    np.testing.assert_allclose(common, expected, rtol=1e-14)


def test_a_linear_function_can_be_transposed():
    double = lambda x: 2 * x
    function = WithGradient(double, lambda _, c: (2 * c,), double, n_variables=1)
    (transposed,) = jax.linear_transpose(function, X)(jnp.ones_like(X))
    np.testing.assert_array_equal(transposed, 2.0)
