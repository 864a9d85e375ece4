"""What is measured: a number, what it is held against, and the evidence for it."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from meanfield.errors import InvalidInputError

Relation = Literal["<=", ">=", "="]
MARGIN = 10.0  # by how many tolerances a control must fail


class Fit(NamedTuple):
    """Points on a line in logarithmic axes: evidence for an order of convergence.

    Attributes:
        x: the small parameter, by name in `x_name`.
        y: what was measured at each, by name in `y_name`.
        slope: the least-squares slope of log `y` on log `x`.
        half_width: half of its 95 % confidence interval.

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
    """A gradient ascent of log(lhs / rhs): evidence for an inequality.

    Attributes:
        history: the largest log-ratio found by each step.
        witness: where it was found; a check can be measured there again.

    Examples:
        >>> from meanfield.theorems import Ascent
        >>> Ascent(history=(-1.0, -0.5), witness={}).history[-1]
        -0.5
    """

    history: tuple[float, ...]
    witness: Mapping[str, Any]


class Check(NamedTuple):
    """One measurement against one bound.

    Attributes:
        label: what was measured, in a few words.
        observed: the number.
        relation: how it is claimed to stand to the bound.
        bound: the number claimed; for errors of identities, zero.
        tolerance: what rounding, quadrature or statistics may add.
        why: how the tolerance was derived.
        evidence: what a picture can show of it.

    Examples:
        >>> from meanfield.theorems import Check
        >>> check = Check("gap", 1e-13, "<=", 0.0, 4e-12, "rounding of sums")
        >>> check.holds, check.violated
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
        """How far the observation lies on the wrong side; negative if it does not.

        Raises:
            InvalidInputError: if the relation is none of `<=`, `>=` and `=`.
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
        """Whether the claim was observed; a NaN or an infinity never holds."""
        return math.isfinite(self.observed) and bool(self.excess <= self.tolerance)

    @property
    def violated(self) -> bool:
        """Whether the claim failed by a finite margin of ten tolerances at least."""
        wide = self.excess > 0 and self.excess >= MARGIN * self.tolerance
        return math.isfinite(self.observed) and bool(wide)

    @property
    def refuted(self) -> str:
        """Where an observation would have failed by that margin, in words."""
        margin = MARGIN * self.tolerance
        if self.relation == "=":
            return f"{self.bound:.4g} ± {margin:.4g} or farther"
        if self.relation == "<=":
            return f"{self.bound + margin:.4g} or more"
        return f"{self.bound - margin:.4g} or less"

    @property
    def tightness(self) -> float | None:
        """How near an inequality came to equality: 1 if it was reached."""
        if self.relation == "=" or self.bound == 0 or not math.isfinite(self.observed):
            return None
        ratio = self.observed / self.bound
        return ratio if self.relation == "<=" else (1 / ratio if ratio else None)


Checks = Iterable[Check]
"""What a measurement returns, or yields one by one."""
