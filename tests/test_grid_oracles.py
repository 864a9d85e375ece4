"""Flows on a line against closed forms, characteristics and error estimates."""

import functools

import numpy as np
import pytest
from grid_reference import (
    characteristics,
    line,
    masses_of,
    normal,
    physical_edges,
    two_bumps,
)
from scipy.integrate import solve_ivp

import meanfield
from meanfield.endings import Status
from meanfield.flows import Trajectory, error_estimate, flow
from meanfield.measures import AbstractBox, AffineBox, FixedBox, Grid
from meanfield.measures.edges import even_edges

RATES = {  # of the variance of a centred Gaussian: 2Ls, with L of each closed form
    "softmax": lambda s, A: 2 * A * s**2,
    "contracting": lambda s, A: -2 * A * s**2,  # softmax with V = -1
    "l2": lambda s, A: 2 * (2 * A * s**2) / (1 + 2 * s),
    "sinkhorn": lambda s, A: 4 * A * s**2 / (1 + np.sqrt(1 + 4 * A**2 * s**2)),
    "esp": lambda s, A: 2 * np.sign(A) * s,
    # Each sort regresses: of keys to s/(s + 1/2), of queries' ranks by 1/p, t = 1.
    "esp-soft": lambda s, A: 2 * A * s**2 / (s + 0.5) / (1 + 0.25 / (s * (s + 0.5))),
}

VARIANT = {"contracting": "softmax"}


def variance(name: str, A: float, t: float) -> float:
    run = solve_ivp(
        lambda _, s: RATES[name](s, A), (0, t), [1.0], rtol=1e-11, atol=1e-14
    )
    return float(run.y[0, -1])


@functools.cache
def run(
    name: str, A: float, box: AbstractBox, reach: float, t: float
) -> Trajectory[Grid]:
    """N(0, 1) on 400 cells; runs of one attention and box share a compilation."""
    identity = np.eye(1)
    V = -identity if name == "contracting" else identity
    attention = meanfield.attentions[VARIANT.get(name, name)](A * identity, identity, V)
    start = line(normal(), even_edges(-reach, reach, 400), box=box)
    return flow(attention, start, np.array([0, t / 2, t]))


FIXED_BOX, MOVING_BOX = FixedBox(), AffineBox()
CASES = [
    ("softmax", -1.0, FIXED_BOX, 6.0, 1.0, 1e-4),
    pytest.param("softmax", -1.0, MOVING_BOX, 6.0, 1.0, 1e-4, marks=pytest.mark.slow),
    ("contracting", 1.0, MOVING_BOX, 8.0, 100.0, 1e-3),  # σ falls to a fourteenth
    pytest.param("softmax", 1.0, FIXED_BOX, 20.0, 0.2, 1e-3, marks=pytest.mark.slow),
    ("softmax", 1.0, MOVING_BOX, 20.0, 0.2, 1e-3),
    pytest.param("l2", -1.0, FIXED_BOX, 6.0, 1.0, 1e-4, marks=pytest.mark.slow),
    pytest.param("l2", 1.0, FIXED_BOX, 12.0, 1.0, 1e-3, marks=pytest.mark.slow),
    ("esp", -1.0, FIXED_BOX, 6.0, 0.5, 1e-3),
    pytest.param("esp-soft", -1.0, FIXED_BOX, 6.0, 0.5, 1e-3, marks=pytest.mark.slow),
    pytest.param("sinkhorn", -1.0, MOVING_BOX, 6.0, 1.0, 1e-4, marks=pytest.mark.slow),
    pytest.param("sinkhorn", 1.0, MOVING_BOX, 6.0, 1.0, 1e-3, marks=pytest.mark.slow),
]


@pytest.mark.slow_cases(
    "contracting-1.0-box2-8.0-100.0-0.001",
    "esp--1.0-box7-6.0-0.5-0.001",
    "softmax--1.0-box0-6.0-1.0-0.0001",
)
@pytest.mark.parametrize(("name", "A", "box", "reach", "t", "tolerance"), CASES)
def test_the_variance_matches_the_closed_form(
    name: str, A: float, box: AbstractBox, reach: float, t: float, tolerance: float
) -> None:
    actual = run(name, A, box, reach, t)
    assert actual.status is Status.FINISHED
    exact = variance(name, A, t)
    assert abs(float(actual.final.covariance[0, 0]) / exact - 1) < tolerance
    law, edges = normal(np.sqrt(exact)), physical_edges(actual.final)
    gap = np.asarray(actual.final.masses) - masses_of(law, edges)
    assert np.sum(np.abs(gap)) < tolerance


ENDINGS = [
    # The tilted mean leaves the box before a thousandth of the mass does.
    pytest.param(
        "softmax", 1.0, FIXED_BOX, 6.0, 0.6, Status.ESCAPE, marks=pytest.mark.slow
    ),
    ("softmax", 1.0, MOVING_BOX, 6.0, 0.6, Status.ESCAPE),
    ("l2", 1.0, FIXED_BOX, 6.0, 2.0, Status.ESCAPE),
    pytest.param(  # a Dirac, to its cells
        *("contracting", 1.0, FIXED_BOX, 6.0, 1e3, Status.COLLAPSE),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.slow_cases("l2-1.0-box2-6.0-2.0-escape")
@pytest.mark.parametrize(("name", "A", "box", "reach", "t", "status"), ENDINGS)
def test_leaving_the_grid_has_its_own_ending(
    name: str, A: float, box: AbstractBox, reach: float, t: float, status: Status
) -> None:
    actual = run(name, A, box, reach, t)
    assert actual.status is status
    assert not status.is_failure
    end = float(actual.stop_time)
    error = float(actual.final.covariance[0, 0]) / variance(name, A, end) - 1
    if status is Status.ESCAPE:  # it ended while the numbers were right
        assert abs(error) < 5e-3


@pytest.mark.slow
def test_two_bumps_follow_the_characteristics_to_second_order() -> None:
    t, A, gaps = 0.4, 0.5, []
    law = characteristics(two_bumps, A, t)
    identity = np.eye(1)
    attention = meanfield.attentions["softmax"](A * identity, identity, identity)
    for n in (200, 400):
        end = flow(
            attention, line(two_bumps, even_edges(-7, 7, n)), np.array([0, t])
        ).final
        exact = masses_of(law, physical_edges(end))
        gaps.append(np.sum(np.abs(np.asarray(end.masses) - exact)))
    assert gaps[1] < 1e-4
    assert np.log2(gaps[0] / gaps[1]) > 1.9


@pytest.mark.slow
def test_error_estimates_include_the_cut_tail() -> None:
    identity = np.eye(1)
    attention = meanfield.attentions["softmax"](identity, identity, identity)
    cut = run("softmax", 1.0, MOVING_BOX, 10.0, 0.3)
    error = abs(float(cut.final.covariance[0, 0]) / variance("softmax", 1.0, 0.3) - 1)
    assert cut.status is Status.FINISHED
    assert error > 1e-3
    actual = error_estimate(attention, cut.start, cut.final, span=(0.0, 0.3))
    assert error < actual.box < 10 * error
    fine = run("softmax", -1.0, MOVING_BOX, 8.0, 1.0)
    shrinks = meanfield.attentions["softmax"](-identity, identity, identity)
    estimate_of_shrinking = error_estimate(
        shrinks, fine.start, fine.final, span=(0.0, 1.0)
    )
    assert estimate_of_shrinking.box < 1e-3
    assert estimate_of_shrinking.cells < 1e-3
