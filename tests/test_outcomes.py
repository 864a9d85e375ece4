"""Outcomes of flows: combined, and as JSON values and back."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from meanfield.cli.jobs._report import describe_error_estimate
from meanfield.endings import Status
from meanfield.flows import ErrorEstimate
from meanfield.runs.records._endings import Outcome, combine_outcomes
from meanfield.runs.records._validation import members_reader


def test_the_error_estimate_of_a_family_is_its_largest() -> None:
    estimates = [ErrorEstimate(c, 0.0, 0.0, c) for c in (1e-4, 0.09, 1e-3)]
    finished = Outcome(Status.FINISHED, 1.0)
    members = [replace(finished, error_estimate=estimate) for estimate in estimates]
    assert combine_outcomes([finished, *members]).error_estimate == estimates[1]
    assert combine_outcomes([finished, finished]).error_estimate is None
    text = describe_error_estimate(
        {"error_estimate": [None, *(estimate._asdict() for estimate in estimates)]}
    )
    assert "member 2" in text
    assert "off by 9 %" in text


def test_the_predicted_blow_up_of_fixed_steps_round_trips() -> None:
    for due in ((math.nan, math.nan), (0.25, 1e-9)):
        outcome = Outcome(Status.INTERRUPTED, 1.0, predicted_blow_up=due)
        record = json.loads(json.dumps(outcome.as_json(), allow_nan=False))
        check_member(record)
        again = Outcome.from_json(record)
        np.testing.assert_array_equal(again.predicted_blow_up, due)
    del record["predicted_blow_up"]  # as records of 0.1
    check_member(record)
    assert Outcome.from_json(record).predicted_blow_up is None
    with pytest.raises(ValidationError):
        check_member({**record, "predicted_blow_up": [0.25]})


def check_member(record: dict) -> None:
    members_reader().validate_json(json.dumps([record]), strict=True)


def test_a_lapse_names_the_missed_tolerance():
    """By how much, and after how many iterations; old records have no numbers."""
    lapse = (8.7e-11, 3.7e-11, 97)
    outcome = Outcome(
        Status.UNCONVERGED, 0.5, residual=8.7e-11, convergence_failure=lapse
    )
    assert "8.7e-11 where 3.7e-11 was asked, after 97 iterations" in outcome.reason
    assert "--options max_iterations" in outcome.reason
    restored = Outcome.from_json(json.loads(json.dumps(outcome.as_json())))
    assert restored == outcome
    assert outcome.ending().reason == outcome.reason
    old = outcome.as_json()
    del old["convergence_failure"]
    assert Outcome.from_json(old).reason == Status.UNCONVERGED.reason
