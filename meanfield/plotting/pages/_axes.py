"""Axes of small plots: from numbers to pixels, and where the ticks stand."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from meanfield.plotting._figure.text import power_of_ten

from ._numerals import plain

Tick = tuple[float, str]  # the place on the axis, and its label

_MOST = 5  # ticks on an axis
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200)  # in decades; doubles span 633
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


class Axis(NamedTuple):
    """A range of numbers laid along a range of pixels.

    Attributes:
        low: the number at `start`; a logarithm to base ten on logarithmic axes.
        high: the number at `end`.
        start: in pixels.
        end: in pixels; less than `start` if the axis points up.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, number: float) -> float:
        """Its pixel."""
        share = (number - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def spanning(
    numbers: Sequence[float], start: float, end: float, *, least: float
) -> Axis:
    """The axis that shows all of them, with a little room at both ends.

    Of data that hardly vary it shows `least`, so that they look as flat as they are.
    """
    low, high = min(numbers), max(numbers)
    room = max(0.07 * (high - low), (least - (high - low)) / 2)
    return Axis(low - room, high + room, start, end)


def even_ticks(axis: Axis) -> list[Tick]:
    """Round numbers at equal distances."""
    return [(tick, plain(tick, 12)) for tick in _round_numbers(axis.low, axis.high)]


def log_ticks(axis: Axis) -> list[Tick]:
    """Decades; where there are fewer than two, 1-2-5, or else round numbers."""
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
    """Powers of ten, every so often, all written alike."""
    step = next(n for n in _STEPS if (last - first) // n < _MOST)
    multiples = range(-(-first // step) * step, last + 1, step)
    short = first >= -2 and last <= 3
    return [
        (float(n), plain(10.0**n, 1) if short else power_of_ten(n)) for n in multiples
    ]


def _round_numbers(low: float, high: float) -> list[float]:
    rough = (high - low) / (_MOST - 1)
    scale = 10.0 ** math.floor(math.log10(rough))
    step = scale * next(nice for nice in _NICE if nice * scale >= 0.999 * rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    digits = 1 - math.floor(math.log10(step))
    return [round(n * step, max(digits, 0)) for n in range(first, last + 1)]
