"""Checks: a measured number, the bound it is compared with, and the evidence."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from meanfield.errors import InvalidInputError

Relation = Literal["<=", ">=", "="]
MARGIN = 10.0  # a negative control must miss its bound by at least this many tolerances


class Fit(NamedTuple):
    """Line fitted on logarithmic axes: evidence for an order of convergence.

    Attributes:
        x: values of the small parameter; its name is `x_name`.
        y: the quantity measured at each `x`; its name is `y_name`.
        slope: the least-squares slope of log `y` on log `x`.
        half_width: half-width of the 95 % confidence interval of the slope.

    Examples:
        >>> from meanfield.theorems import Fit
        >>> Fit((1.0, 0.1), (1.0, 0.01), 2.0, 0.0, "ε", "error").slope
        2.0
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    slope: float
    half_width: float
    x_name: str
    y_name: str


class Ascent(NamedTuple):
    """Gradient ascent of log(lhs / rhs): evidence for an inequality.

    Attributes:
        history: the largest log-ratio found up to each step.
        witness: the parameters at the largest log-ratio, for a second evaluation.

    Examples:
        >>> from meanfield.theorems import Ascent
        >>> Ascent(history=(-1.0, -0.5), witness={}).history[-1]
        -0.5
    """

    history: tuple[float, ...]
    witness: Mapping[str, Any]


class Check(NamedTuple):
    """Comparison of one measured number with one bound.

    Attributes:
        label: what was measured, in a few words.
        observed: the measured number.
        relation: the claimed relation between the number and the bound.
        bound: the claimed number; zero for the error of an identity.
        tolerance: allowance for rounding, quadrature or statistical error.
        why: how the tolerance was derived.
        evidence: data that a plot can show, if there are any.

    Examples:
        >>> from meanfield.theorems import Check
        >>> check = Check("gap", 1e-13, "<=", 0.0, 4e-12, "rounding of sums")
        >>> check.holds, check.is_violated
        (True, False)
    """

    label: str
    observed: float
    relation: Relation
    bound: float
    tolerance: float
    why: str
    evidence: Fit | Ascent | None = None

    @property
    def excess(self) -> float:
        """Distance by which the bound is missed; negative if the bound holds strictly.

        Raises:
            InvalidInputError: if the relation is not `<=`, `>=` or `=`.
        """
        gap = self.observed - self.bound
        distances = {"<=": gap, ">=": -gap, "=": abs(gap)}
        if self.relation not in distances:
            raise InvalidInputError(
                "The relation of a check must be `<=`, `>=` or `=`; "
                f"got `{self.relation}`."
            )
        return distances[self.relation]

    @property
    def holds(self) -> bool:
        """Whether the observation agrees with the claim; NaN and infinity never do."""
        return math.isfinite(self.observed) and bool(self.excess <= self.tolerance)

    @property
    def is_violated(self) -> bool:
        """Whether a finite observation misses the bound by at least ten tolerances."""
        wide = self.excess > 0 and self.excess >= MARGIN * self.tolerance
        return math.isfinite(self.observed) and bool(wide)

    @property
    def violation_range(self) -> str:
        """Text that names the observations that would violate the claim."""
        margin = MARGIN * self.tolerance
        if self.relation == "=":
            return f"{self.bound:.4g} ± {margin:.4g} or farther"
        if self.relation == "<=":
            return f"{self.bound + margin:.4g} or more"
        return f"{self.bound - margin:.4g} or less"

    @property
    def tightness(self) -> float | None:
        """Ratio of the two sides of an inequality; 1 in a case of equality."""
        if self.relation == "=" or self.bound == 0 or not math.isfinite(self.observed):
            return None
        ratio = self.observed / self.bound
        return ratio if self.relation == "<=" else (1 / ratio if ratio else None)


Checks = Iterable[Check]
"""The checks that a measurement returns or yields."""
