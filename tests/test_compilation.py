"""Compiled programs: one for each shape, and the memory of compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diffrax import NoProgressMeter, RecursiveCheckpointAdjoint

from meanfield._programs import fast_compilation, quick_flags
from meanfield.attention import attentions
from meanfield.dynamics import Projected
from meanfield.flows import compile_function, prepare_problem
from meanfield.flows._compilation import optimisation_level
from meanfield.flows._short_programs import level_of, monitor
from meanfield.measures import Gaussian, Points


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


def test_small_programs_are_optimised_less():
    sizes = (4, 32, 33, 4096, 4097)
    levels = [optimisation_level({"x": jnp.zeros(n)}) for n in sizes]
    assert levels == [0, 0, 1, 1, None]
    shapes = (512, 4), (512, 5), (64, 8), (65, 8), (1, 400)
    levels = [optimisation_level(jnp.zeros(shape)) for shape in shapes]
    assert levels == [1, None, 1, None, None]
    shapes = (10, 10), (11, 11), (22, 2), (23, 2), (2, 8, 8), (3, 8, 8)
    levels = [optimisation_level(jnp.zeros(shape)) for shape in shapes]
    assert levels == [0, 1, 0, 1, 0, 1]
    assert optimisation_level("no arrays") == 0


def test_programs_of_all_levels_count_as_one_cache():
    double = compile_function(lambda x: 2 * x)
    sizes = [4, 400, 40_000]
    assert [float(double(jnp.ones(n))[-1]) for n in sizes] == [2.0] * 3
    assert double.programs == 3
    assert all(double.has_program(jnp.zeros(n)) for n in sizes)


def test_flags_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=2")
    assert "xla_backend_optimization_level" not in quick_flags(1)
    monkeypatch.delenv("XLA_FLAGS")
    assert quick_flags(1)["xla_backend_optimization_level"] == 1
    assert fast_compilation().startswith("--xla_backend_optimization_level=0")


def test_projected_flows_are_optimised_in_full():
    """Their quadratures take far more work than their few numbers suggest."""
    one, times = np.eye(2), jnp.linspace(0, 0.1, 2)
    start = Gaussian.from_moments(np.zeros(2), one)
    softmax = attentions["softmax"](one, one, one)
    levels = []
    for dynamics in (softmax, Projected(softmax)):
        steps = {"stepping": None, "stop": None, "run_start": None}
        problem, _ = prepare_problem(dynamics, start, times, **steps)
        levels.append(level_of(problem, times))
    assert levels == [0, None]


def test_the_potentials_of_a_flow_are_solved_at_two_places_of_its_program():
    """In the stages of a step, and in one loop that inspects its ends."""
    one, x = np.eye(2), np.linspace(-1.0, 1.0, 8).reshape(4, 2)
    sinkhorn, times = attentions["sinkhorn"](one, one, one), jnp.linspace(0, 0.1, 2)
    steps = {"stepping": None, "stop": None, "run_start": None}
    problem, _ = prepare_problem(sinkhorn, Points.uniform(x), times, **steps)
    adjoint, meter = RecursiveCheckpointAdjoint(), NoProgressMeter()
    text = monitor.lower(problem, times, adjoint, meter).as_text()
    assert text.count("call @field_at") == 2
