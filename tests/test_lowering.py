"""Programs compiled for accelerators, checked without one."""

import re

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_cases import every_variant

from meanfield import Gaussian, Points, attentions
from meanfield.flows import Problem, prepare_problem
from meanfield.flows._integration import integrate_in_jit
from meanfield.measures import AbstractMeasure

# Arrays of doubles; scalars are constants, which are rounded before they are used.
DOUBLES = re.compile(r"tensor<(?:\d+x)+f64>")
PRODUCT = re.compile(r"stablehlo\.dot_general.*")


def lower_flow(name: str, mu: AbstractMeasure) -> str:
    """The program of a flow for an NVIDIA GPU, in single precision."""
    rng = np.random.default_rng(0)
    Q, K, V = (jnp.asarray(rng.normal(size=(2, 2)), jnp.float32) for _ in range(3))
    ts = jnp.asarray([0.0, 1.0], jnp.float32)
    options = {"stepping": None, "stop": None, "run_start": None}
    problem, ts = prepare_problem(attentions[name](Q, K, V), mu, ts, **options)
    arrays, rest = eqx.partition(problem, eqx.is_array)
    adjoint = diffrax.RecursiveCheckpointAdjoint()

    @jax.jit
    def end(arrays: Problem, ts: jax.Array) -> object:
        problem = eqx.combine(arrays, rest)
        return eqx.filter(integrate_in_jit(problem, ts, adjoint), eqx.is_array)

    with jax.default_matmul_precision("highest"):
        lowered = end.trace(arrays, ts)
    return lowered.lower(lowering_platforms=("cuda",)).as_text()


def check(text: str) -> None:
    """No host callback, no array of doubles, no product in TF32."""
    assert "callback" not in text
    assert DOUBLES.findall(text) == []
    products = PRODUCT.findall(text)
    assert products
    assert [p for p in products if "precision = [HIGHEST, HIGHEST]" not in p] == []


@pytest.fixture(autouse=True)
def disable_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in commands: inputs are checked on the host, not inside programs."""
    monkeypatch.setattr("equinox._errors.EQX_ON_ERROR", "off")


@pytest.mark.slow_cases("sinkhorn")
@every_variant
def test_tokens_need_no_host_no_doubles_and_no_short_products(name: str):
    x = np.random.default_rng(1).normal(size=(64, 2))
    check(lower_flow(name, Points.uniform(jnp.asarray(x, jnp.float32))))


def test_gaussians_need_no_host_no_doubles_and_no_short_products():
    moments = jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32)
    check(lower_flow("softmax", Gaussian(*moments)))


def test_the_lowering_check_finds_planted_violations():
    double = jnp.asarray(np.eye(3))
    with jax.default_matmul_precision("default"):
        text = jax.jit(lambda x: x @ x).lower(double).as_text()
    assert DOUBLES.findall(text)
    assert "precision = [HIGHEST, HIGHEST]" not in text
    calls = jax.jit(lambda x: jax.debug.print("{}", x)).lower(double).as_text()
    assert "callback" in calls
