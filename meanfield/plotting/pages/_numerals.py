"""Numbers as a reader wants them, with all their digits behind."""

import html
import math
from typing import Any

from meanfield.plotting._figure.text import power_of_ten

_DIGITS = 4  # of those that are shown, where fewer would not mislead
_EXACT = 17  # any double


def finite(value: Any) -> bool:
    """Whether it is a number at all: neither null nor NaN nor infinite."""
    return isinstance(value, int | float) and math.isfinite(value)


def numeral(value: Any, apart_from: Any = None, digits: int = _DIGITS) -> str:
    """A number as HTML: so many digits, or as many as tell it from `apart_from`."""
    if not finite(value):
        return f'<span class="bad">not finite{_kind(value)}</span>'
    shown = _told_apart(float(value), apart_from, digits)
    marked = _typeset(shown)
    if float(shown) == value:
        return marked
    exact = html.escape(repr(value))
    return f'<data value="{exact}" title="{exact}">{marked}</data>'


def plain(value: float, digits: int = _DIGITS) -> str:
    """A number as text: 0.001234, 1.234·10⁻⁵."""
    mantissa, power = _parts(f"{value:.{digits}g}")
    if not power:
        return mantissa
    lead = "" if mantissa == "1" else f"{mantissa}·"
    return f"{lead}{power_of_ten(int(power.replace('−', '-')))}"


def _kind(value: Any) -> str:
    if not isinstance(value, float):
        return ""
    return " (NaN)" if math.isnan(value) else f" ({'−' if value < 0 else ''}∞)"


def _told_apart(value: float, other: Any, digits: int) -> str:
    for more in range(digits, _EXACT):
        shown = f"{value:.{more}g}"
        if not finite(other) or value == other or float(shown) != other:
            return shown
    return repr(value)


def _typeset(shown: str) -> str:
    mantissa, power = _parts(shown)
    return f"{mantissa}&#8239;·&#8239;10<sup>{power}</sup>" if power else mantissa


def _parts(shown: str) -> tuple[str, str]:
    """Mantissa and power of ten, with true minus signs; no power from 1e-3 to 1e4."""
    value = float(shown)
    if value and not 1e-3 <= abs(value) < 1e4:
        digits = len(shown.split("e")[0].replace("-", "").replace(".", "").strip("0"))
        mantissa, power = f"{value:.{max(digits - 1, 0)}e}".split("e")
        return mantissa.replace("-", "−"), str(int(power)).replace("-", "−")
    return repr(value).removesuffix(".0").replace("-", "−"), ""
