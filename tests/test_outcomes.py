"""How flows ended: of many as one, and as JSON values and back."""

import json
import math
from dataclasses import replace

import numpy as np

from meanfield.cli.jobs._report import describe_error_estimate
from meanfield.endings import Status
from meanfield.flows import ErrorEstimate
from meanfield.runs.records._endings import Outcome, combine_outcomes
from meanfield.runs.records._validation import _is_member  # pyright: ignore[reportPrivateUsage]


def test_the_doubt_of_a_family_is_the_largest_of_its_members() -> None:
    doubts = [ErrorEstimate(c, 0.0, 0.0, c) for c in (1e-4, 0.09, 1e-3)]
    finished = Outcome(Status.FINISHED, 1.0)
    members = [replace(finished, error_estimate=doubt) for doubt in doubts]
    assert combine_outcomes([finished, *members]).error_estimate == doubts[1]
    assert combine_outcomes([finished, finished]).error_estimate is None
    said = describe_error_estimate(
        {"error_estimate": [None, *(doubt._asdict() for doubt in doubts)]}
    )
    assert "member 2" in said
    assert "off by 9 %" in said


def test_what_fixed_steps_were_told_comes_back_from_its_record() -> None:
    for due in ((math.nan, math.nan), (0.25, 1e-9)):
        outcome = Outcome(Status.INTERRUPTED, 1.0, predicted_blow_up=due)
        stored = json.loads(json.dumps(outcome.as_json(), allow_nan=False))
        assert _is_member(stored)
        again = Outcome.from_json(stored)
        np.testing.assert_array_equal(again.predicted_blow_up, due)
    del stored["predicted_blow_up"]  # as records of 0.1
    assert _is_member(stored)
    assert Outcome.from_json(stored).predicted_blow_up is None
    assert not _is_member({**stored, "predicted_blow_up": [0.25]})


def test_a_lapse_says_what_missed_its_tolerance():
    """By how much, and after how many iterations; records of old have no numbers."""
    lapse = (8.7e-11, 3.7e-11, 97)
    outcome = Outcome(
        Status.UNCONVERGED, 0.5, residual=8.7e-11, convergence_failure=lapse
    )
    assert "8.7e-11 where 3.7e-11 was asked, after 97 iterations" in outcome.reason
    assert "--options max_iterations" in outcome.reason
    again = Outcome.from_json(json.loads(json.dumps(outcome.as_json())))
    assert again == outcome
    assert outcome.ending().reason == outcome.reason
    old = outcome.as_json()
    del old["convergence_failure"]
    assert Outcome.from_json(old).reason == Status.UNCONVERGED.reason
