"""What a number of a sweep is over its seeds: its middle, and a band."""

import math
from typing import NamedTuple

import numpy as np

_QUARTILES = (0.25, 0.5, 0.75)


class Average(NamedTuple):
    """Over seeds, which stood in the last axis; NaN where there is none.

    `middle` and `high` are infinite where they are larger than any number.
    """

    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    note: str


def average(numbers: np.ndarray) -> Average:
    """The mean and its standard error; the median and quartiles if some are infinite.

    A number that is NaN is left out.
    """
    seeds = numbers.shape[-1]
    if np.isposinf(numbers).any():
        said = f"line: median over {seeds} seeds; band: quartiles"
        return Average(*_quartiles(numbers), said)
    said = f"line: mean over {seeds} seeds; band: its standard error"
    if np.array_equal(
        numbers, np.broadcast_to(numbers[..., :1], numbers.shape), equal_nan=True
    ):
        said = f"all {seeds} seeds give the same: nothing depends on them"
    mean, error = _mean(numbers)
    return Average(mean, mean - error, mean + error, said)


def _mean(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = np.isfinite(numbers)
    count = held.sum(axis=-1).astype(float)
    count[count == 0] = np.nan
    kept = np.where(held, numbers, 0.0)
    mean = kept.sum(axis=-1) / count
    squares = np.where(held, numbers - mean[..., None], 0.0) ** 2
    freedom = np.where(count > 1, count - 1, np.nan)
    return mean, np.sqrt(squares.sum(axis=-1) / freedom / count)


def _quartiles(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middle, low and high; between a number and an infinite one all is infinite."""
    flat = numbers.reshape(-1, numbers.shape[-1])
    result = np.full((3, len(flat)), np.nan)
    for place, row in enumerate(flat):
        kept = np.sort(row[~np.isnan(row)])
        if kept.size:
            result[:, place] = [_quantile(kept, share) for share in _QUARTILES]
    low, middle, high = result.reshape(3, *numbers.shape[:-1])
    return middle, low, high


def _quantile(ordered: np.ndarray, share: float) -> float:
    """Linear between two numbers."""
    rank = share * (ordered.size - 1)
    below, above = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    if np.isposinf(above):
        return math.inf
    return float(below + (rank - math.floor(rank)) * (above - below))
