"""Blow-ups under fixed steps, which a pilot integration predicts."""

import jax.numpy as jnp
import numpy as np
import pytest
from flow_cases import SETTLING, STARTS, Stretch, centred_gaussian, scalar_attention

from meanfield.attention import attentions
from meanfield.dynamics import stack_trees
from meanfield.endings import Status
from meanfield.flows import ensemble, fixed, flow
from meanfield.measures import Gaussian, Points
from meanfield.runs import execute
from meanfield.spec import parse


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["euler", "heun", "tsit5"])
def test_fixed_steps_do_not_pass_a_blow_up(solver: str):
    """Softmax in d = 1 from s₀ = 2 is infinite at t = 1/4, and finite at 0.24."""
    law, steps = scalar_attention(1.0, 1.0), fixed(0.01, solver)
    past_blow_up, before = (
        flow(law, centred_gaussian(2.0), [0, t], stepping=steps) for t in (0.26, 0.24)
    )
    assert before.status is Status.FINISHED
    half = flow(law, centred_gaussian(2.0), [0, 0.15], stepping=steps, run_end=0.26)
    prediction = {"run_start": 0.0, "predicted_blow_up": half.predicted_blow_up}
    later_flow = flow(law, half.final, [0.15, 0.26], stepping=steps, **prediction)
    for end in (past_blow_up, later_flow):
        assert end.status is Status.BLOW_UP
        assert 0.23 < end.stop_time <= 0.25
        assert abs(end.t_star - 0.25) <= min(float(end.t_star_error), 1e-6)


@pytest.mark.parametrize("segment", [pytest.param(3, marks=pytest.mark.slow), 1000])
def test_a_run_of_fixed_steps_reports_its_blow_up(segment: int):
    keys = {"measure": "gaussian", "A": 1.0, "V": 1.0, "cov": 2.0, "dt": 0.01}
    outcome = execute(parse({**keys, "t": 0.26, "segment": segment})).outcome
    assert outcome.status is Status.BLOW_UP
    assert abs(outcome.t_star - 0.25) <= outcome.t_star_error


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "dt"), [("euler", 1.0), ("tsit5", 5.0)])
def test_fixed_steps_report_no_false_blow_up(solver: str, dt: float):
    """Cubic until |x| = 1 and exponential beyond: coarse steps see only the cube."""
    token = Points.uniform([[0.1]])
    end = flow(Stretch(0), token, [0.0, 100.0], stepping=fixed(dt, solver))
    assert end.status is Status.FINISHED
    assert jnp.isnan(end.t_star)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "dt"), [("euler", 0.1), ("heun", 0.25)])
def test_fixed_steps_report_no_blow_up_for_settling_growth(solver: str, dt: float):
    """The path may be inaccurate, but there is no finite blow-up time."""
    attention = attentions["softmax"](*map(np.array, SETTLING))
    starts = stack_trees(
        [Gaussian.from_moments(np.zeros(2), start) for start in STARTS]
    )
    ends = ensemble(attention, starts, [0.0, 20.0], stepping=fixed(dt, solver))
    assert not np.any(np.asarray(ends.code) == int(Status.BLOW_UP))
    assert np.all(np.isnan(ends.t_star))


@pytest.mark.slow
def test_fixed_steps_under_exponential_growth_reach_their_end():
    """Even coarse ones: Euler at h = 1 lags behind, and growth does not accelerate."""
    end = flow(
        scalar_attention(1.0, 1.0, name="l2"),
        centred_gaussian(2.0),
        [0.0, 100.0],
        stepping=fixed(1.0),
    )
    assert end.status is Status.FINISHED
    token = Points.uniform([[1.0]])
    doubly = flow(Stretch(1), token, [0.0, 20.0], stepping=fixed(0.5))
    assert doubly.status is not Status.BLOW_UP
