"""Axes of small SVG plots: maps from numbers to pixels, and ticks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from meanfield.plotting._figure.text import power_of_ten

from ._numerals import plain

Tick = tuple[float, str]  # position on the axis, and label

_MAX_TICKS = 5  # largest number of ticks on an axis
# Logarithmic axes have a tick every 1 to 200 decades; doubles span 633 decades.
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(NamedTuple):
    """A linear map from a range of numbers to a range of pixels.

    Attributes:
        low: the number at `start`; a logarithm to base ten on logarithmic axes.
        high: the number at `end`.
        start: the first pixel.
        end: the last pixel; less than `start` if the axis points up.
    """

    low: float
    high: float
    start: float
    end: float

    def pixel(self, number: float) -> float:
        """The pixel of a number."""
        share = (number - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def spanning(
    numbers: Sequence[float], start: float, end: float, *, least: float
) -> Axis:
    """The axis that contains all numbers, with some room at both ends.

    The axis spans at least `least`, so that nearly constant data look flat.
    """
    low, high = min(numbers), max(numbers)
    room = max(0.07 * (high - low), (least - (high - low)) / 2)
    return Axis(low - room, high + room, start, end)


def even_ticks(axis: Axis) -> list[Tick]:
    """Equally spaced ticks at round numbers."""
    return [(tick, plain(tick, 12)) for tick in _round_numbers(axis.low, axis.high)]


def log_ticks(axis: Axis) -> list[Tick]:
    """Ticks at powers of ten; if fewer than two fit, at 1-2-5 or round numbers."""
    first, last = math.ceil(axis.low), math.floor(axis.high)
    if last > first:
        return _decades(first, last)
    fine = [
        (n + math.log10(lead), plain(lead * 10.0**n, 1))
        for n in range(first - 1, last + 1)
        for lead in (1, 2, 5)
        if axis.low <= n + math.log10(lead) <= axis.high
    ]
    if len(fine) > 1:
        return fine
    return [
        (math.log10(tick), plain(tick, 12))
        for tick in _round_numbers(10.0**axis.low, 10.0**axis.high)
        if tick > 0
    ]


def _decades(first: int, last: int) -> list[Tick]:
    """Ticks at powers of ten with a constant step, all in the same notation."""
    step = next(n for n in _STEPS if (last - first) // n < _MAX_TICKS)
    multiples = range(-(-first // step) * step, last + 1, step)
    short = first >= -2 and last <= 3
    return [
        (float(n), plain(10.0**n, 1) if short else power_of_ten(n)) for n in multiples
    ]


def _round_numbers(low: float, high: float) -> list[float]:
    rough = (high - low) / (_MAX_TICKS - 1)
    scale = 10.0 ** math.floor(math.log10(rough))
    step = scale * next(nice for nice in _NICE if nice * scale >= 0.999 * rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    digits = 1 - math.floor(math.log10(step))
    return [round(n * step, max(digits, 0)) for n in range(first, last + 1)]
