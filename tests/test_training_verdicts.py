"""What paired differences say."""

import numpy as np
import pytest
from scipy import stats

from meanfield.errors import (
    InvalidInputError,
)
from meanfield.training import (
    verdict,
)


def test_verdicts_have_the_interval_of_scipy(rng: np.random.Generator):
    first, second = rng.normal(size=(2, 9))
    found = verdict(first, second)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(found.interval, theirs, rtol=1e-12)
    assert found.median == np.median(first - second)


def test_verdicts_see_what_they_say_nine_times_in_ten(rng: np.random.Generator):
    n, seen = 40, []
    effect = np.sqrt(10.5 / n)
    for _ in range(2000):
        gaps = rng.normal(effect, 1.0, n)
        seen.append(verdict(gaps, np.zeros(n)).conclusion == "reproduced")
    assert 0.87 < np.mean(seen) < 0.92  # Student's t sees a little less


def test_verdicts_say_which_way():
    assert verdict([1.0, 1.1, 0.9], [0.0] * 3).conclusion == "reproduced"
    assert verdict([0.0] * 3, [1.0, 1.1, 0.9]).conclusion == "contradicted"
    assert verdict([1.0, -1.0, 0.1], [0.0] * 3).conclusion == "undecided"
    assert verdict([1.0, 1.1], [0.0] * 2).conclusion == "not enough seeds"
    with pytest.raises(InvalidInputError, match="vectors of equal length"):
        verdict([1.0], [1.0, 2.0])
