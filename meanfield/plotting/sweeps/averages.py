"""Averages over the seeds of a sweep: the middle and the band of a quantity."""

import math
from typing import NamedTuple

import numpy as np

_QUARTILES = (0.25, 0.5, 0.75)


class Average(NamedTuple):
    """Averages over seeds, with a description; NaN where there are no values.

    If some values are infinite, `middle`, `low` and `high` can be infinite, too.
    """

    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    note: str


def average(numbers: np.ndarray) -> Average:
    """The mean over seeds (the last axis), with a band of its standard error.

    If some values are infinite, it is the median, with a band between the quartiles.
    NaNs are ignored.
    """
    seeds = numbers.shape[-1]
    if np.isposinf(numbers).any():
        note = f"line: median over {seeds} seeds; band: quartiles"
        return Average(*_quartiles(numbers), note)
    note = f"line: mean over {seeds} seeds; band: its standard error"
    if np.array_equal(
        numbers, np.broadcast_to(numbers[..., :1], numbers.shape), equal_nan=True
    ):
        note = f"all {seeds} seeds give the same: nothing depends on them"
    mean, error = _mean(numbers)
    return Average(mean, mean - error, mean + error, note)


def _mean(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    finite = np.ma.masked_invalid(numbers)
    variance = finite.var(axis=-1, ddof=1) / finite.count(axis=-1)
    mean, error = finite.mean(axis=-1), np.ma.sqrt(variance)
    return np.ma.filled(mean, np.nan), np.ma.filled(error, np.nan)


def _quartiles(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median, lower and upper quartile by `_quantile`; NaNs are ignored."""
    flat = numbers.reshape(-1, numbers.shape[-1])
    result = np.full((3, len(flat)), np.nan)
    for place, row in enumerate(flat):
        sorted_row = np.sort(row[~np.isnan(row)])
        if sorted_row.size:
            result[:, place] = [_quantile(sorted_row, share) for share in _QUARTILES]
    low, middle, high = result.reshape(3, *numbers.shape[:-1])
    return middle, low, high


def _quantile(sorted_values: np.ndarray, share: float) -> float:
    """A quantile, interpolated between two values; infinite if the upper one is."""
    rank = share * (sorted_values.size - 1)
    lower, upper = sorted_values[math.floor(rank)], sorted_values[math.ceil(rank)]
    if np.isposinf(upper):
        return math.inf
    return float(lower + (rank - math.floor(rank)) * (upper - lower))
