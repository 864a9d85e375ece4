"""Whether networks of one kind do better than those of another, seed by seed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from meanfield.errors import InvalidInputError

LEVEL = 0.95  # of intervals
FEWEST = 3  # pairs below which nothing is said
POWERED = 10.5  # (z of 97.5 % + z of 90 %)², for a power of 90 %

Word = Literal["reproduced", "contradicted", "undecided", "not enough seeds"]


@dataclass(frozen=True)
class Verdict:
    """What paired differences say of a claim that they are positive.

    Attributes:
        word: `reproduced` if the interval excludes zero from above, `contradicted` if
            from below, else `undecided`; of fewer than three pairs none of these.
        mean: of the differences, in their unit.
        interval: of the mean, of Student's t at 95 %.
        median: of the differences.
        deviation: of the differences, with n − 1.
        seen: the smallest mean that so many pairs would see nine times in ten.
        pairs: how many.

    Examples:
        >>> from meanfield.training import verdict
        >>> found = verdict([1.0, 1.7, -0.3, 0.5, 1.7], [0.0] * 5)
        >>> found.word, round(found.mean, 2), [round(end, 1) for end in found.interval]
        ('undecided', 0.92, [-0.1, 2.0])
    """

    word: Word
    mean: float
    interval: tuple[float, float]
    median: float
    deviation: float
    seen: float
    pairs: int


def verdict(
    claimed: Float[np.ndarray, " pairs"] | list[float],
    baseline: Float[np.ndarray, " pairs"] | list[float],
) -> Verdict:
    """Whether what is claimed to be larger is, by Student's t of paired differences.

    Args:
        claimed: of each seed, what the claim says is larger.
        baseline: of the same seeds, the other.

    Raises:
        InvalidInputError: if they are not pairs.

    Examples:
        >>> from meanfield.training import verdict
        >>> verdict([1.0, 1.1, 0.9], [0.0, 0.0, 0.0]).word
        'reproduced'
        >>> verdict([1.0, 1.1], [0.0, 0.0]).word
        'not enough seeds'
    """
    first, second = np.asarray(claimed, float), np.asarray(baseline, float)
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise InvalidInputError(
            f"Pairs have one number of each side; got shapes {first.shape} and "
            f"{second.shape}."
        )
    gaps = first - second
    n, mean = gaps.size, float(gaps.mean())
    deviation = float(gaps.std(ddof=1)) if n > 1 else 0.0
    error = deviation / np.sqrt(n)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * error) if n > 1 else np.inf
    interval = mean - reach, mean + reach
    return Verdict(
        word=_word(n, *interval),
        mean=mean,
        interval=interval,
        median=float(np.median(gaps)),
        deviation=deviation,
        seen=float(np.sqrt(POWERED) * error),
        pairs=n,
    )


def _word(n: int, low: float, high: float) -> Word:
    if n < FEWEST:
        return "not enough seeds"
    if low > 0:
        return "reproduced"
    return "contradicted" if high < 0 else "undecided"
