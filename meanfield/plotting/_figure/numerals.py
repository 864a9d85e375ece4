"""Numbers in words about a picture: a few digits, and powers of ten raised."""

import re

_POWER = re.compile(r"(\d)e([+-]\d+)")
_PLAIN = (-3, 2)  # powers of ten between which numbers are written without one
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def figures(number: float, digits: int = 3) -> str:
    """A number above zero in so many digits, as 9.88 or 1.44·10⁴."""
    written = f"{number:.{digits - 1}e}"
    power = int(written.partition("e")[2])
    if _PLAIN[0] <= power <= _PLAIN[1]:
        return f"{number:.{max(digits - 1 - power, 0)}f}"
    return raised(written)


def raised(words: str) -> str:
    """Words whose powers of ten are raised: 2.7·10⁻⁹ for 2.7e-09."""

    def power(match: re.Match[str]) -> str:
        return f"{match[1]}·10{str(int(match[2])).translate(_RAISED)}"

    return _POWER.sub(power, words)
