"""Verdicts from paired differences."""

import numpy as np
import pytest
from scipy import stats

from meanfield.errors import (
    InvalidInputError,
)
from meanfield.training import (
    verdict,
)


def test_verdict_intervals_match_scipy(rng: np.random.Generator):
    first, second = rng.normal(size=(2, 9))
    actual = verdict(first, second)
    reference = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(actual.interval, reference, rtol=1e-12)
    assert actual.median == np.median(first - second)


def test_verdicts_have_the_stated_power(rng: np.random.Generator):
    n, outcomes = 40, []
    effect = np.sqrt(10.5 / n)
    for _ in range(2000):
        gaps = rng.normal(effect, 1.0, n)
        outcomes.append(verdict(gaps, np.zeros(n)).conclusion == "reproduced")
    assert 0.87 < np.mean(outcomes) < 0.92  # Student's t sees a little less


def test_verdicts_state_the_direction():
    assert verdict([1.0, 1.1, 0.9], [0.0] * 3).conclusion == "reproduced"
    assert verdict([0.0] * 3, [1.0, 1.1, 0.9]).conclusion == "contradicted"
    assert verdict([1.0, -1.0, 0.1], [0.0] * 3).conclusion == "undecided"
    assert verdict([1.0, 1.1], [0.0] * 2).conclusion == "not enough seeds"
    with pytest.raises(InvalidInputError, match="vectors of equal length"):
        verdict([1.0], [1.0, 2.0])
