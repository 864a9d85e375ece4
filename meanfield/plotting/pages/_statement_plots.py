"""Small SVG plots of evidence, in the colours of the page."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from meanfield.plotting._figure.text import power_of_ten

from ._mathml import typeset
from ._numerals import finite, plain

_WIDTH, _HEIGHT = 244, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 42.0, 236.0, 22.0, 116.0
_MAX_POINTS = 120  # largest number of points in the plot of a history
_HALF_A_DECADE, _FIVE_PERCENT = 0.5, 0.02
_FARTHEST = 300.0  # largest |log₁₀| of a number that is drawn; doubles reach about 308

Record = Mapping[str, Any]
Point = tuple[float, float]
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


def plot(check: Record) -> str:
    """The plot of a check's evidence; empty if its evidence cannot be drawn."""
    evidence = check["evidence"] or {}
    drawing = _DRAWINGS.get(evidence.get("kind", ""))
    if drawing is None:
        return ""
    picture, text = drawing(check, evidence)
    caption = f"{typeset(check['label'])}: {html.escape(text)}"
    return f'<figure class="plot">{picture}<figcaption>{caption}</figcaption></figure>'


def _fit(_: Record, evidence: Record) -> tuple[str, str]:
    """Points on logarithmic axes, the fitted line, and a wedge for its error.

    Returns the picture, empty if there are no points, and its description.
    """
    pairs = list(zip(evidence["x"], evidence["y"], strict=True))
    points = [(math.log10(x), math.log10(y)) for x, y in pairs if _positive(x, y)]
    slope, half = evidence["slope"], evidence["half_width"]
    text = f"slope {_number(slope)} ± {_number(half, 2)}"
    text += _omission_note(len(points), len(pairs), "points")
    names = (evidence["x_name"], evidence["y_name"])
    if not points:
        return "", text
    x_axis = spanning([x for x, _ in points], _LEFT, _RIGHT, least=_HALF_A_DECADE)
    y_axis = spanning([y for _, y in points], _BOTTOM, _TOP, least=_HALF_A_DECADE)
    marks = "".join(
        f'<circle class="dot" cx="{x_axis.pixel(x):.1f}" '
        f'cy="{y_axis.pixel(y):.1f}" r="2.6"/>'
        for x, y in points
    )
    axes = (x_axis, y_axis)
    line = _line(points, (float(slope), half), axes) if finite(slope) else ""
    frame = _frame((x_axis, log_ticks(x_axis)), (y_axis, log_ticks(y_axis)), names)
    alt = f"{names[1]} against {names[0]}, logarithmic: {text}"
    return _svg(frame + line + marks, alt), text


def _line(
    points: Sequence[Point], slope: tuple[float, Any], axes: tuple[Axis, Axis]
) -> str:
    """The least-squares line, and a wedge of the slopes in the confidence interval."""
    x_axis, y_axis = axes
    x0 = sum(x for x, _ in points) / len(points)
    y0 = sum(y for _, y in points) / len(points)
    ends = (x_axis.low, x_axis.high)

    def endpoints(s: float) -> list[Point]:
        return [(x_axis.pixel(x), y_axis.pixel(y0 + s * (x - x0))) for x in ends]

    half = slope[1] if finite(slope[1]) else 0.0
    (a, b), (c, d) = endpoints(slope[0] - half), endpoints(slope[0] + half)
    wedge = f'<path class="wedge" d="M{_path_data([a, b, d, c])}Z"/>'
    return _clip(f'{wedge}<path class="fit" d="M{_path_data(endpoints(slope[0]))}"/>')


def _ascent(check: Record, evidence: Record) -> tuple[str, str]:
    """The largest ratio found up to each step, and the bound, on a logarithmic axis.

    Returns the picture, empty if there are no points, and its description.
    """
    history, bound = evidence["history"], check["bound"]
    points = [
        (float(step), value / math.log(10))
        for step, value in enumerate(history, 1)
        if finite(value) and abs(value) < _FARTHEST * math.log(10)
    ]
    text = f"{_number(check['observed'])} found, bound {_number(bound)}"
    text += _omission_note(len(points), len(history), "steps")
    if not points:
        return "", text
    level = [math.log10(bound)] if _positive(bound) else []
    heights = [*(y for _, y in points), *level]
    x_axis = spanning([x for x, _ in points], _LEFT, _RIGHT, least=1.0)
    y_axis = spanning(heights, _BOTTOM, _TOP, least=_FIVE_PERCENT)
    trace = [(x_axis.pixel(x), y_axis.pixel(y)) for x, y in thin_points(points)]
    lines = "".join(
        f'<path class="bound" d="M{_LEFT} {y_axis.pixel(y):.1f}H{_RIGHT}"/>'
        for y in level
    )
    lines += f'<path class="fit" d="M{_path_data(trace)}"/>'
    x, y = trace[-1]
    lines += f'<circle class="end" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'
    frame = _frame(
        (x_axis, even_ticks(x_axis)), (y_axis, log_ticks(y_axis)), ("step", "ratio")
    )
    return _svg(frame + lines, f"ascent: {text}"), text


def _omission_note(n_drawn: int, n: int, noun: str) -> str:
    return f"; {n - n_drawn} of {n} {noun} cannot be drawn" if n_drawn < n else ""


def thin_points(points: Sequence[Point]) -> list[Point]:
    """At most 120 points, evenly chosen, with both ends and the highest."""
    last = len(points) - 1
    if last < _MAX_POINTS:
        return list(points)
    indices = {round(i * last / (_MAX_POINTS - 2)) for i in range(_MAX_POINTS - 1)}
    top = max(range(len(points)), key=lambda i: points[i][1])
    return [points[i] for i in sorted(indices | {top})]


_DRAWINGS = {"fit": _fit, "ascent": _ascent}


def _frame(
    horizontal: tuple[Axis, list[Tick]],
    vertical: tuple[Axis, list[Tick]],
    names: Sequence[str],
) -> str:
    (x_axis, x_ticks), (y_axis, y_ticks) = horizontal, vertical
    marks = [f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>']
    for tick, label in x_ticks:
        x = x_axis.pixel(tick)
        marks.append(f'<path class="axis" d="M{x:.1f} {_BOTTOM}v3"/>')
        marks.append(_text(label, x, _BOTTOM + 13, "middle"))
    for tick, label in y_ticks:
        y = y_axis.pixel(tick)
        marks.append(f'<path class="axis" d="M{_LEFT} {y:.1f}h-3"/>')
        marks.append(_text(label, _LEFT - 5, y + 3, "end"))
    marks.append(_text(names[0], (_LEFT + _RIGHT) / 2, 144.0, "middle"))
    marks.append(_text(names[1], 4.0, 11.0, "start"))
    return "".join(marks)


def _text(label: str, x: float, y: float, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{html.escape(label)}</text>"


def _clip(marks: str) -> str:
    """The marks clipped to the axes, by a nested SVG."""
    box = f"{_LEFT} {_TOP} {_RIGHT - _LEFT} {_BOTTOM - _TOP}"
    x, y, width, height = box.split()
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<svg {place} viewBox="{box}">{marks}</svg>'


def _svg(marks: str, alt: str) -> str:
    box = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return f'<svg {box} role="img" aria-label="{html.escape(alt)}">{marks}</svg>'


def _path_data(points: Sequence[Point]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _positive(*numbers: Any) -> bool:
    """Whether all numbers have a logarithm that can be drawn."""
    return all(
        finite(number) and number > 0 and abs(math.log10(number)) < _FARTHEST
        for number in numbers
    )


def _number(value: Any, digits: int = 4) -> str:
    return plain(float(value), digits) if finite(value) else "not finite"
