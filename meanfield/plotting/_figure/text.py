"""Formatting of text in pictures: verbatim text, numbers, powers of ten."""

import re

_POWER = re.compile(r"(?:(?<![\d.])1|(\d))e([+-]\d+)")  # no factor if it is 1
_PLAIN = (-3, 2)  # smallest and largest exponent written without a power of ten
_SUPERSCRIPTS = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def verbatim(text: object) -> str:
    """The text with `$` escaped, so that matplotlib typesets no mathematics."""
    return str(text).replace("$", r"\$")


def format_number(number: float, digits: int = 3) -> str:
    """A positive number to `digits` significant digits, such as 9.88 or 1.44·10⁴."""
    text = f"{number:.{digits - 1}e}"
    power = int(text.partition("e")[2])
    if _PLAIN[0] <= power <= _PLAIN[1]:
        return f"{number:.{max(digits - 1 - power, 0)}f}"
    return superscript_powers(text)


def superscript_powers(text: str) -> str:
    """The text with powers of ten as superscripts, such as 2.7·10⁻⁹ and 10⁵."""
    return _POWER.sub(
        lambda m: (f"{m[1]}·" if m[1] else "") + power_of_ten(int(m[2])), text
    )


def power_of_ten(n: int) -> str:
    """A power of ten as text: 10⁻⁵."""
    return f"10{str(n).translate(_SUPERSCRIPTS)}"
