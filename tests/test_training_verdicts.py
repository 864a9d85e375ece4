"""Verdicts from paired differences."""

import numpy as np
import pytest
from scipy import stats

from meanfield.errors import InvalidInputError
from meanfield.training import verdict


def test_verdict_intervals_match_scipy(rng: np.random.Generator):
    first, second = rng.normal(size=(2, 9))
    actual = verdict(first, second)
    reference = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(actual.interval, reference, rtol=1e-12)
    assert actual.median == np.median(first - second)


def test_intervals_cover_for_training_sets_that_overlap(rng: np.random.Generator):
    """Five equally correlated values, as if a quarter of what varies is in the test."""
    ratio = 1 / 4
    correlation = ratio / (1 + ratio)
    samples = rng.normal(size=(4000, 5)) * np.sqrt(1 - correlation)
    samples += rng.normal(size=(4000, 1)) * np.sqrt(correlation)
    intervals = np.array(
        [verdict(row, np.zeros(5), test_ratio=ratio).interval for row in samples]
    )
    covered = (intervals[:, 0] < 0) & (intervals[:, 1] > 0)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize("n", [3, 5, 40])
def test_verdicts_have_the_stated_power(n: int, rng: np.random.Generator):
    """Of normal samples with the detectable mean, nine in ten are reproduced."""
    gaps = rng.normal(size=n)
    gaps = (gaps - gaps.mean()) / gaps.std(ddof=1)
    effect = verdict(gaps, np.zeros(n)).detectable_effect
    samples = rng.normal(effect, 1.0, (20_000, n))
    errors = samples.std(axis=1, ddof=1) / np.sqrt(n)
    is_detected = samples.mean(axis=1) / errors > stats.t.ppf(0.975, n - 1)
    assert np.mean(is_detected) == pytest.approx(0.9, abs=0.01)


def test_fewer_than_three_pairs_detect_nothing():
    for n in (1, 2):
        assert verdict([1.0] * n, [0.0] * n).detectable_effect == np.inf


def test_verdicts_state_the_direction():
    assert verdict([1.0, 1.1, 0.9], [0.0] * 3).conclusion == "reproduced"
    assert verdict([0.0] * 3, [1.0, 1.1, 0.9]).conclusion == "contradicted"
    assert verdict([1.0, -1.0, 0.1], [0.0] * 3).conclusion == "undecided"
    assert verdict([1.0, 1.1], [0.0] * 2).conclusion == "not enough seeds"
    with pytest.raises(InvalidInputError, match="vectors of equal length"):
        verdict([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("values", "test_ratio"),
    [([1.0, np.nan, 1.0], 0.0), ([1.0, np.inf, 1.0], 0.0), ([1.0] * 3, -0.5)],
)
def test_a_verdict_is_never_made_of_nan(values: list[float], test_ratio: float):
    with pytest.raises(InvalidInputError, match="must be finite"):
        verdict(values, [0.0] * 3, test_ratio=test_ratio)
