"""Building blocks of measurements: comparisons, and orders of convergence."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from scipy import stats

from ._check import Check, Fit, Relation

EPS = float(np.finfo(np.float64).eps)
EXACT = (
    "rounding: sums of fewer than 1e3 products of size 1 and exponentials of scores "
    "below 20 lose at most 1e3 × 20 × 2e-16 of the largest entry"
)
ROUNDING = 4e-12
# Ten tolerances are less than one, so that a slope that is wrong by one is a violation.
ORDER_TOLERANCE = 0.095
# Bound in standard errors. A correct mean exceeds it by chance once in 150 000 draws.
SIGMAS = 4.5

Number = float | int


class Slack(TypedDict):
    """Keyword arguments of a check: the tolerance, and how it was derived."""

    tolerance: Number
    why: str


def gap(
    label: str,
    actual: Any,
    expected: Any,
    *,
    tolerance: Number,
    why: str,
    scale: Number | None = None,
) -> Check:
    """Check of the largest difference of two arrays, relative to `expected`.

    Args:
        label: what is compared.
        actual: result of the library.
        expected: result of an independent computation.
        tolerance: allowed difference, relative to the largest entry of `expected`.
        why: how the tolerance was derived.
        scale: replaces the largest entry of `expected`, if that entry can vanish.

    Raises:
        ValueError: if the shapes differ.
    """
    left, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if left.shape != right.shape:
        raise ValueError(
            "The compared arrays must have equal shapes; "
            f"got {left.shape} and {right.shape}."
        )
    size = float(np.max(np.abs(right))) if scale is None else scale
    worst = float(np.max(np.abs(left - right))) / (size or 1.0)
    return Check(label, worst, "<=", 0.0, tolerance, why)


def close(label: str, actual: object, expected: object) -> Check:
    """Check that two arrays agree up to the rounding of sums and exponentials."""
    return gap(label, actual, expected, tolerance=ROUNDING, why=EXACT)


def compare(
    label: str,
    value: Any,
    relation: Relation,
    bound: Number,
    *,
    tolerance: Number = 0.0,
    why: str = "a strict margin is claimed: nothing is added",
) -> Check:
    """Check of a number against a bound."""
    return Check(label, float(value), relation, float(bound), tolerance, why)


def zero_count(label: str, number: Any) -> Check:
    """Check that a count is zero."""
    return compare(label, number, "<=", 0, why="a count")


def order(
    label: str,
    x: Sequence[float] | np.ndarray,
    errors: Sequence[float] | np.ndarray,
    expected: Number,
    *,
    names: tuple[str, str] = ("ε", "error"),
) -> Check:
    """Check of an order of convergence: the slope of log `errors` against log `x`.

    The tolerance is the half-width of the 95 % confidence interval, plus twice the
    drift of the slope towards the smallest `x`, which bounds the effect of the next
    order, plus 1e-3. It is never more than 0.095.
    """
    log_x, log_y = np.log(np.asarray(x)), np.log(np.asarray(errors))
    line: Any = stats.linregress(log_x, log_y)
    half = float(stats.t.ppf(0.975, len(log_x) - 2) * line.stderr)
    smallest = np.argsort(log_x)[:2]
    last = np.diff(log_y[smallest])[0] / np.diff(log_x[smallest])[0]
    drift = abs(float(last) - float(line.slope))
    tolerance = min(ORDER_TOLERANCE, half + 2 * drift + 1e-3)
    why = (
        f"95 % interval of the slope ± {half:.2g}, drift towards the smallest "
        f"{names[0]} {drift:.2g} taken twice, at most {ORDER_TOLERANCE}"
    )
    fit = Fit(
        tuple(map(float, x)), tuple(map(float, errors)), float(line.slope), half, *names
    )
    return Check(label, float(line.slope), "=", expected, tolerance, why, fit)


def z_score(label: str, mean: float, expected: float, standard_error: float) -> Check:
    """Check of a Monte Carlo mean against its expectation, in standard errors."""
    z = abs(mean - expected) / standard_error
    why = f"{SIGMAS} standard errors of {standard_error:.2g}: exceeded 1 in 1.5e5 times"
    return Check(label, float(z), "<=", 0.0, SIGMAS, why)


def asymmetry(jacobian: Any) -> float:
    r"""Relative asymmetry of a square matrix: $\max|J - J^\top| / \max|J|$."""
    J = np.asarray(jacobian)
    return float(np.max(np.abs(J - J.T)) / np.max(np.abs(J)))
