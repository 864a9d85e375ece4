"""Text in pictures: a user's as it stands, numbers in few digits, powers of ten."""

import re

_POWER = re.compile(r"(\d)e([+-]\d+)")
_PLAIN = (-3, 2)  # powers of ten between which numbers are written without one
_RAISED = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def verbatim(text: object) -> str:
    """The text with dollars that are drawn as dollars, not read as mathematics."""
    return str(text).replace("$", r"\$")


def figures(number: float, digits: int = 3) -> str:
    """A number above zero in so many digits, as 9.88 or 1.44·10⁴."""
    written = f"{number:.{digits - 1}e}"
    power = int(written.partition("e")[2])
    if _PLAIN[0] <= power <= _PLAIN[1]:
        return f"{number:.{max(digits - 1 - power, 0)}f}"
    return raised(written)


def raised(words: str) -> str:
    """Words whose powers of ten are raised: 2.7·10⁻⁹ for 2.7e-09."""
    return _POWER.sub(lambda m: f"{m[1]}·{power_of_ten(int(m[2]))}", words)


def power_of_ten(n: int) -> str:
    """A power of ten as text: 10⁻⁵."""
    return f"10{str(n).translate(_RAISED)}"
