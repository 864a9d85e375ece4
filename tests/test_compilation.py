"""Compiled programs: one for each shape, and the memory of compilation."""

import jax
import jax.numpy as jnp
import pytest

from meanfield.flows import compile_function


def test_memory_is_returned_after_each_new_program(monkeypatch: pytest.MonkeyPatch):
    calls: list[None] = []
    count_call = lambda: calls.append(None)
    monkeypatch.setattr("meanfield.flows._compilation.return_memory", count_call)
    double = compile_function(lambda x: 2 * x)
    for n in (2, 2, 3):
        assert double(jnp.ones(n)).tolist() == [2.0] * n
    assert (double.programs, len(calls)) == (2, 2)
    jax.jit(double)(jnp.ones(4))  # part of a program compiled elsewhere
    assert len(calls) == 2


def test_programs_are_known_by_shapes_until_they_are_dropped():
    double = compile_function(lambda x: 2 * x)
    assert not double.has_program(jnp.ones(2))
    double(jnp.ones(2))
    assert double.has_program(jnp.zeros(2))
    assert not double.has_program(jnp.ones(3))
    jax.clear_caches()
    assert not double.has_program(jnp.ones(2))


def test_products_in_single_precision_keep_their_digits():
    """An accelerator would round factors to TF32 by default."""
    product = compile_function(lambda a: a @ a)
    text = product.lower(jnp.ones((3, 3), jnp.float32)).as_text()
    assert "precision = [HIGHEST, HIGHEST]" in text
