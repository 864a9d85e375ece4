"""Numbers as HTML or text, rounded to a few digits, with all digits in a tooltip."""

import html
import math
from typing import Any

from meanfield.plotting._figure.text import power_of_ten

_DIGITS = 4  # default number of significant digits
_EXACT = 17  # number of digits that determine any double


def finite(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def numeral(value: Any, reference: Any = None, digits: int = _DIGITS) -> str:
    """A number as HTML with `digits` digits, or more to tell it from `reference`."""
    if not finite(value):
        return f'<span class="bad">not finite{_kind(value)}</span>'
    text = _distinguish(float(value), reference, digits)
    markup = _typeset(text)
    if float(text) == value:
        return markup
    exact = html.escape(repr(value))
    return f'<data value="{exact}" title="{exact}">{markup}</data>'


def plain(value: float, digits: int = _DIGITS) -> str:
    """A number as text, such as 0.001234 or 1.234·10⁻⁵."""
    mantissa, power = _parts(f"{value:.{digits}g}")
    if not power:
        return mantissa
    lead = "" if mantissa == "1" else f"{mantissa}·"
    return f"{lead}{power_of_ten(int(power.replace('−', '-')))}"


def _kind(value: Any) -> str:
    if not isinstance(value, float):
        return ""
    return " (NaN)" if math.isnan(value) else f" ({'−' if value < 0 else ''}∞)"


def _distinguish(value: float, reference: Any, digits: int) -> str:
    for more in range(digits, _EXACT):
        text = f"{value:.{more}g}"
        if not finite(reference) or value == reference or float(text) != reference:
            return text
    return repr(value)


def _typeset(text: str) -> str:
    mantissa, power = _parts(text)
    return f"{mantissa}&#8239;·&#8239;10<sup>{power}</sup>" if power else mantissa


def _parts(text: str) -> tuple[str, str]:
    """Mantissa and power of ten, with true minus signs; no power from 1e-3 to 1e4."""
    value = float(text)
    if value and not 1e-3 <= abs(value) < 1e4:
        digits = len(text.split("e")[0].replace("-", "").replace(".", "").strip("0"))
        mantissa, power = f"{value:.{max(digits - 1, 0)}e}".split("e")
        return mantissa.replace("-", "−"), str(int(power)).replace("-", "−")
    return repr(value).removesuffix(".0").replace("-", "−"), ""
