"""The mean-field limit: rates in n, and the stability constant, on small instances."""

import numpy as np
import pytest
from helpers import assert_close

from experiments.limits.fits import least_squares
from experiments.mean_field_limit.clouds import (
    Sizes,
    distance_at_start,
    measure_errors,
    measure_growth,
)

SMALL = Sizes(numbers=(16, 64, 256), draws=12, pairs=4)


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
@pytest.mark.slow
def test_gaps_fall_like_the_root_of_the_number_of_tokens(name: str) -> None:
    """In closed form and on a grid: within four standard errors, which exclude -1."""
    actual = measure_errors(name, SMALL, seed=1)
    log_n = np.log(np.array(actual.numbers, float))
    columns = np.stack([np.ones(3), log_n], axis=1)
    for values, log_errors in zip(
        (actual.mean, actual.covariance), actual.log_errors[:2], strict=True
    ):
        fit = least_squares(columns, np.log(values), log_errors)
        assert abs(fit.values[1] + 0.5) < 4 * fit.errors[1]
        assert abs(fit.values[1] + 1.0) > 3 * fit.errors[1]


def test_distances_at_the_start_match_order_statistics() -> None:
    """One token: 2. Two: E max = 1/√π, the half-normal mean √(2/π), and samples."""
    assert_close(distance_at_start(1), np.sqrt(2.0), ulps=1e5)
    exact = np.sqrt(2 - 2 * 2 * (1 / np.sqrt(np.pi)) * np.sqrt(2 / np.pi) / 2)
    assert_close(distance_at_start(2), exact, ulps=1e5)
    rng = np.random.default_rng(3)
    x = np.sort(rng.normal(size=(4000, 9)), axis=1)
    z = np.sort(rng.normal(size=(9000,)))
    squared_distances = (x[:, :, None] - z.reshape(9, 1000)[None]) ** 2
    order_statistics = np.mean(squared_distances, axis=(1, 2))
    assert distance_at_start(9) ** 2 == pytest.approx(
        np.mean(order_statistics), rel=0.03
    )


def test_pairs_of_clouds_separate_within_the_stability_constant() -> None:
    """And not slower than their means: translated clouds separate at rate one."""
    actual = measure_growth("softmax", SMALL, seed=2)
    assert 0.9 < actual.rate < actual.bound
    assert actual.ratios[0] == 1
    R = 0.5 * np.exp(0.25)
    a = R**2
    assert_close(actual.bound, (1 + 2 * a) * np.exp(2 * a) + a, ulps=100)
