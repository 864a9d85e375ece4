"""Flows and couplings with unusual scales, weights and segments."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from meanfield.attention import attentions
from meanfield.endings import Status
from meanfield.flows import flow
from meanfield.measures import Gaussian, Points
from meanfield.runs import execute
from meanfield.spec import parse
from meanfield.tokens import Tokens

IDENTITY = np.eye(1)


@pytest.mark.slow_cases("-1.0-1e-06")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 5e3, 1e6])
@pytest.mark.parametrize("a", [-1.0, 1.0])
def test_a_flow_commutes_with_scaling(a: float, scale: float):
    """Softmax in d = 1 is s' = 2 a s², so s(t) = s₀ / (1 - 2 a s₀ t), for any s₀.

    A first trial step that overflows must be rejected, and not end the flow.
    """
    attention = attentions["softmax"](a * IDENTITY, IDENTITY, IDENTITY)
    start = Gaussian.from_moments(np.zeros(1), scale * IDENTITY)
    end = 10 / scale if a < 0 else 10.0 / scale
    run = flow(attention, start, np.array([0.0, end]))
    if a < 0:
        assert run.status is Status.FINISHED
        exact = scale / (1 + 2 * scale * end)
        assert float(run.final.covariance[0, 0]) == pytest.approx(exact, rel=1e-8)
    else:
        assert run.status is Status.BLOW_UP
        assert float(run.t_star) == pytest.approx(0.5 / scale, rel=1e-6)


@pytest.mark.slow_cases("2", "3")
@pytest.mark.parametrize("segment", [1, 2, 3])
def test_a_blow_up_is_found_wherever_segments_end(segment: int):
    """A = 1, s₀ = 2: t* = 1/4, also from a segment that begins 1e-6 before it."""
    times = [0.0, 0.1, 0.249999, 5.0, 10.0]
    keys = {"measure": "gaussian", "A": 1.0, "cov": 2.0, "times": times}
    outcome = execute(parse({**keys, "segment": segment})).outcome
    assert outcome.status is Status.BLOW_UP
    assert outcome.t_star == pytest.approx(0.25, abs=1e-7)
    assert abs(outcome.t_star - 0.25) <= outcome.t_star_error


def test_an_excluded_token_is_moved_accurately():
    """Exp attention, V = -1: x₁' = -x₁ e^{x₁²}, x₂' = -x₁ e^{x₁ x₂}, by SciPy."""
    attention = attentions["exp"](IDENTITY, IDENTITY, -IDENTITY)
    start = Points.weighted(np.array([[1.0], [5.0]]), np.array([1.0, 0.0]))
    run = flow(attention, start, np.array([0.0, 1.0]))
    velocity = lambda t, x: -x[0] * np.exp(x[0] * x)
    exact = solve_ivp(velocity, (0, 1), [1.0, 5.0], method="Radau", rtol=1e-11)
    np.testing.assert_allclose(run.last[:, 0], exact.y[:, -1], rtol=1e-6)


@pytest.mark.slow_cases("0.1")
@pytest.mark.parametrize("mass", [0.1, 1.0, 3.0, 30.0])
def test_sinkhorn_normalises_a_measure_of_any_mass(
    mass: float, rng: np.random.Generator
):
    """The plan has marginals one against the measure, so velocities do not scale."""
    x = rng.normal(size=(8, 2))
    attention = attentions["sinkhorn"](np.eye(2), np.eye(2), np.eye(2))
    mu = Points.uniform(x)
    heavy = Points(Tokens(jnp.asarray(x)), mu.log_weights + np.log(mass))
    reference = attention.field(0.0, mu)(mu.tokens)
    field = attention.field(0.0, heavy)
    assert field.convergence is not None
    assert float(field.convergence.residual) < 1e-10
    np.testing.assert_allclose(field(mu.tokens), reference, atol=1e-9)


@pytest.mark.slow_cases("linear", "linear-expansion")
@pytest.mark.parametrize("name", ["softmax", "sinkhorn", "linear-expansion", "linear"])
def test_scale_divides_scores_and_nothing_else(name: str):
    """`--scale sqrt-k` in d = k = 4 is the same as A / 2."""
    keys = {"measure": "gaussian", "attention": name, "d": 4, "V": -1.0, "t": 1.0}
    (scaled,) = execute(parse({**keys, "A": 1.0, "scale": "sqrt-k"})).measures
    (half_scale,) = execute(parse({**keys, "A": 0.5})).measures
    assert isinstance(scaled, Gaussian)
    assert isinstance(half_scale, Gaussian)
    np.testing.assert_allclose(scaled.covariance, half_scale.covariance, rtol=1e-8)
