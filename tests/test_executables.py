"""Stored executables: when they are used again, and when not."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meanfield import Gaussian, Trajectory, _executables, attentions, fixed, flow
from meanfield._executables import count_executables, forget_executables, run_stored
from meanfield.cli.process._programs import Programs
from meanfield.flows import compile_function
from meanfield.flows._short_programs import monitor_in_jit
from meanfield.linalg import length, solve

ONE = np.eye(1)
THREE = ((jnp.ones(3),), {})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """A store that only this test uses, for programs without calls to the host."""
    monkeypatch.setattr("equinox._errors.EQX_ON_ERROR", "off")
    programs = Programs(tmp_path)
    cache = _executables.CacheAccess(programs.get, programs.put, programs.pause)
    monkeypatch.setattr(_executables.Process, "cache", cache)
    monkeypatch.setattr(_executables.Process, "is_changed", False)
    forget_executables()
    jax.clear_caches()
    yield programs
    forget_executables()
    jax.clear_caches()


def stored_files(store: Programs) -> list[Path]:
    return sorted(vars(store)["_path"].glob("*-program"))


def blow_up(value: float = 1.0) -> Trajectory:
    attention = attentions["softmax"](ONE, ONE, value * ONE)
    return flow(attention, Gaussian.from_moments([0.0], [[2.0]]), [0.0, 0.1, 1.0])


def test_a_second_process_runs_what_the_first_stored(
    store: Programs, monkeypatch: pytest.MonkeyPatch
):
    is_stored, first = run_stored(length, THREE, {})
    assert (is_stored, len(stored_files(store))) == (True, 1)
    assert count_executables(length) == 1
    forget_executables()  # as in a new process
    monkeypatch.setattr(_executables, "_compile", None)  # nothing may be compiled
    is_stored, second = run_stored(length, THREE, {})
    assert is_stored
    assert float(first) == float(second) == np.sqrt(3)


def test_flows_are_the_same_with_and_without_the_store(store: Programs):
    first = blow_up()
    assert count_executables(monitor_in_jit) == 1
    forget_executables()
    second = blow_up()
    _executables.Process.cache = None
    third = blow_up()
    assert jax.tree.structure(first) == jax.tree.structure(third)
    for loaded, compiled, jitted in zip(
        *map(jax.tree.leaves, (second, first, third)), strict=True
    ):
        np.testing.assert_array_equal(loaded, compiled)
        np.testing.assert_array_equal(loaded, jitted)
    assert str(second.status) == "blow-up"
    assert abs(second.t_star - 0.25) <= second.t_star_error


@pytest.mark.parametrize(
    "change",
    [
        lambda: ((jnp.ones(4),), {}),
        lambda: ((jnp.ones(3, jnp.float32),), {}),
        lambda: ((), {"x": jnp.ones(3)}),
        lambda: ((jnp.ones((3, 1)),), {}),
    ],
)
def test_other_shapes_precisions_and_structures_are_other_programs(
    store: Programs, change: Callable
):
    run_stored(length, THREE, {})
    _, result = run_stored(length, change(), {})
    assert len(stored_files(store)) == 2
    np.testing.assert_allclose(
        result, np.sqrt(jax.tree.leaves(change())[0].size), rtol=1e-6
    )


def test_numbers_are_no_part_of_the_key_but_settings_and_options_are(store: Programs):
    run_stored(length, THREE, {})
    _, result = run_stored(length, ((jnp.array([2.0, 2.0, 2.0]),), {}), {})
    assert len(stored_files(store)) == 1
    assert float(result) == 2 * np.sqrt(3)
    run_stored(length, THREE, {"xla_cpu_prefer_vector_width": 256})
    with jax.default_matmul_precision("bfloat16"):
        run_stored(length, THREE, {})
    assert len(stored_files(store)) == 3


def test_static_arguments_are_part_of_the_key(store: Programs):
    blow_up()
    n = len(stored_files(store))
    attention = attentions["softmax"](ONE, ONE, -ONE)
    start = Gaussian.from_moments([0.0], [[2.0]])
    flow(attention, start, [0.0, 0.1, 1.0])  # other numbers alone
    assert len(stored_files(store)) == n
    flow(attention, start, [0.0, 0.1, 1.0], stepping=fixed(0.1))
    assert len(stored_files(store)) > n


@pytest.mark.parametrize("damage", [b"", b"xy", None])
def test_damaged_entries_are_compiled_again(store: Programs, damage: bytes | None):
    run_stored(length, THREE, {})
    (file,) = stored_files(store)
    file.write_bytes(file.read_bytes()[:-9] if damage is None else damage)
    forget_executables()
    assert float(run_stored(length, THREE, {})[1]) == np.sqrt(3)


def test_entries_that_cannot_be_loaded_are_compiled_again(store: Programs):
    run_stored(length, THREE, {})
    (file,) = stored_files(store)
    store.put(file.name.removesuffix("-program"), b"no pickle")
    forget_executables()
    assert float(run_stored(length, THREE, {})[1]) == np.sqrt(3)


def test_functions_that_the_key_does_not_cover_are_not_stored(store: Programs):
    """Two functions of one name would be one program."""
    functions = compile_function(lambda x: 2 * x), compile_function(lambda x: 3 * x)
    assert [float(function(jnp.ones(()))) for function in functions] == [2.0, 3.0]
    assert stored_files(store) == []


def test_sources_that_changed_since_the_start_store_nothing(
    store: Programs, monkeypatch: pytest.MonkeyPatch
):
    """The process may still run the older code."""
    with monkeypatch.context() as patch:
        patch.setattr(_executables.Process, "start", 0.0)
        _executables.installation_digest.cache_clear()
        assert run_stored(length, THREE, {}) == (False, None)
    assert stored_files(store) == []
    assert run_stored(length, THREE, {})[0]


PLUGIN = """
import jax
from meanfield import Gaussian
from meanfield.flows.motions import GaussianMotion, motions


class Twice(GaussianMotion):
    def drift(self, mu, field, noise):
        return jax.tree.map(lambda rate: 2 * rate, super().drift(mu, field, noise))


motions[Gaussian] = Twice()
"""


def test_what_a_plugin_changes_is_neither_stored_nor_hidden(tmp_path: Path):
    r"""The covariance is $1/(1 + 2t)$, and with the plugin $1/(1 + 4t)$."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    plain = [
        "simulate",
        "--measure",
        "gaussian",
        "--A",
        "1",
        "--V",
        "-1",
        "--t",
        "0.1",
        "--json",
    ]
    plugged = [*plain, "--plugin", "plugin.py"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    variances = []
    for arguments in (plugged, plain, plugged):
        command = [sys.executable, "-m", "meanfield", *arguments]
        output = subprocess.run(
            command, env=environment, capture_output=True, check=True, cwd=tmp_path
        )
        variances.append(np.ravel(json.loads(output.stdout)["covariance"])[0])
    np.testing.assert_allclose(variances, [1 / 1.4, 1 / 1.2, 1 / 1.4], rtol=1e-8)


def test_objects_of_plugins_are_not_stored(store: Programs):
    class Mine(eqx.Module):
        x: jax.Array

    assert run_stored(length, ((Mine(jnp.ones(3)),), {}), {}) == (False, None)


def test_programs_that_call_the_host_are_left_to_jax(
    store: Programs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("equinox._errors.EQX_ON_ERROR", "raise")
    first = blow_up()
    n = len(stored_files(store))
    forget_executables()  # as in a new process
    assert float(blow_up().t_star) == float(first.t_star)
    assert count_executables(monitor_in_jit) == 1
    assert len(stored_files(store)) == n == 1  # the judge, which calls nothing


def test_programs_that_call_lapack_are_left_to_jax(store: Programs):
    """A process that loads one has not prepared LAPACK, and would crash."""
    matrix, rhs = jnp.eye(6) + 0.1, jnp.ones(6)
    is_run, solution = run_stored(solve, ((matrix, rhs), {}), {})
    assert is_run
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, rhs))
    assert stored_files(store) == []


@pytest.mark.slow_cases("keys1", "keys2")
@pytest.mark.parametrize(
    "keys",
    [
        ["--measure", "gaussian"],
        ["--measure", "gaussian", "--attention", "l2", "--d", "8"],
        ["--attention", "sinkhorn", "--A=-1", "--n", "20"],
    ],
)
def test_a_repeated_command_has_the_same_result(tmp_path: Path, keys: list[str]):
    """The second process loads what the first one stored, or leaves it to JAX."""
    command = ["simulate", *keys, "--t", "0.1", "--json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    reports: list[dict] = []
    sizes: list[int] = []
    for _ in range(2):
        run = [sys.executable, "-m", "meanfield", *command]
        output = subprocess.run(run, env=environment, capture_output=True, check=True)
        reports.append(json.loads(output.stdout))
        sizes.append(len(list(tmp_path.rglob("*-program"))))
    assert sizes[0] == sizes[1] > 0
    assert reports[0]["covariance"] == reports[1]["covariance"]
