"""Paired comparison of two kinds of networks with the same seeds."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import special, stats

from meanfield.errors import InvalidInputError

LEVEL = 0.95  # level of confidence intervals
MIN_PAIRS = 3  # smallest number of pairs for a conclusion
POWER = 0.9  # probability with which the detectable effect is detected

Conclusion = Literal["reproduced", "contradicted", "undecided", "not enough seeds"]


@dataclass(frozen=True)
class Verdict:
    """Verdict on the claim that the mean of paired differences is positive.

    Attributes:
        conclusion: `reproduced` if the interval lies above 0, `contradicted` if it lies
            below 0, else `undecided`; `not enough seeds` for fewer than three pairs.
        mean: mean of the differences.
        interval: 95 % confidence interval of the mean, by Student's t, corrected for
            training samples that pairs share.
        median: median of the differences.
        deviation: standard deviation of the differences; NaN for a single pair.
        detectable_effect: smallest mean that this number of pairs detects with
            probability 0.9, for normal differences of the measured deviation; infinite
            for fewer than three.
        n_pairs: number of pairs.

    Examples:
        >>> from meanfield.training import verdict
        >>> result = verdict([1.0, 1.7, -0.3, 0.5, 1.7], [0.0] * 5)
        >>> result.conclusion, round(result.mean, 2)
        ('undecided', 0.92)
        >>> [round(end, 1) for end in result.interval]
        [-0.1, 2.0]
    """

    conclusion: Conclusion
    mean: float
    interval: tuple[float, float]
    median: float
    deviation: float
    detectable_effect: float
    n_pairs: int


def verdict(
    candidate: Float[np.ndarray, " pairs"] | list[float],
    baseline: Float[np.ndarray, " pairs"] | list[float],
    *,
    test_ratio: float = 0.0,
) -> Verdict:
    r"""Tests whether `candidate` has a larger mean than `baseline` (paired t-test).

    Networks whose training sets overlap have correlated values. Then the variance of
    the mean of n differences is estimated as $(1/n + r)$ times their variance, where
    $r$ is the number of test samples divided by the number of training samples; Nadeau
    and Bengio, 2003, *Inference for the generalization error*, section 3.

    Args:
        candidate: values, one for each seed, that are claimed to be larger.
        baseline: values for the same seeds, to compare with.
        test_ratio: $r$; 0 if training sets are independent, or equal for all seeds and
            conclusions are about these samples only.

    Raises:
        InvalidInputError: if the two are not vectors of equal length, a value is not
            finite, or `test_ratio` is negative.

    Examples:
        >>> from meanfield.training import verdict
        >>> verdict([1.0, 1.1, 0.9], [0.0, 0.0, 0.0]).conclusion
        'reproduced'
        >>> verdict([1.0, 1.1], [0.0, 0.0]).conclusion
        'not enough seeds'
    """
    gaps = _differences(candidate, baseline)
    if not (np.isfinite(gaps).all() and 0 <= test_ratio < np.inf):
        raise InvalidInputError(
            "Values must be finite, and `test_ratio` finite and at least 0; got "
            f"{candidate}, {baseline} and {test_ratio}."
        )
    n, mean = gaps.size, float(gaps.mean())
    deviation = float(gaps.std(ddof=1)) if n > 1 else np.nan
    error = deviation * (1 / n + test_ratio) ** 0.5
    t = stats.t.ppf((1 + LEVEL) / 2, n - 1)
    reach = float(t * error) if n > 1 else np.inf
    # The noncentrality of the t statistic; normal quantiles give half for 3 pairs.
    ratio = float(special.nctdtrinc(n - 1, 1 - POWER, t))
    return Verdict(
        conclusion=_conclusion(n, mean - reach, mean + reach),
        mean=mean,
        interval=(mean - reach, mean + reach),
        median=float(np.median(gaps)),
        deviation=deviation,
        detectable_effect=ratio * error if n >= MIN_PAIRS else np.inf,
        n_pairs=n,
    )


def _differences(
    candidate: Float[np.ndarray, " pairs"] | list[float],
    baseline: Float[np.ndarray, " pairs"] | list[float],
) -> Float[np.ndarray, " pairs"]:
    first, second = np.asarray(candidate, float), np.asarray(baseline, float)
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise InvalidInputError(
            "`candidate` and `baseline` must be vectors of equal length; got shapes "
            f"{first.shape} and {second.shape}."
        )
    return first - second


def _conclusion(n: int, low: float, high: float) -> Conclusion:
    if n < MIN_PAIRS:
        return "not enough seeds"
    if low > 0:
        return "reproduced"
    return "contradicted" if high < 0 else "undecided"
