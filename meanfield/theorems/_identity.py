"""Identities: both sides of an equation, computed independently and compared."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._check import Check
from ._protocols import EXACT, ROUNDING, gap


@dataclass(frozen=True)
class Identity:
    """Two functions that must agree on several inputs, with one check for each input.

    Attributes:
        left: computes an array from a case, often with the library.
        right: computes the same array independently of `left`.
        cases: maps the label of each check to the input of both functions.
        tolerance: allowed difference, relative to the largest entry of `right`.
        why: how the tolerance was derived.

    Examples:
        >>> import math
        >>> from meanfield.theorems import Identity
        >>> double = lambda x: 2 * math.sin(x) * math.cos(x)
        >>> cases = {"at one": 1.0, "at two": 2.0}
        >>> sines = Identity(lambda x: math.sin(2 * x), double, cases)
        >>> [check.holds for check in sines]
        [True, True]
    """

    left: Callable[[Any], Any]
    right: Callable[[Any], Any]
    cases: Mapping[str, Any]
    tolerance: float = ROUNDING
    why: str = EXACT

    def __iter__(self) -> Iterator[Check]:
        for label, case in self.cases.items():
            sides = self.left(case), self.right(case)
            yield gap(label, *sides, tolerance=self.tolerance, why=self.why)
