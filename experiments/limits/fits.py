"""Extrapolated limits and fitted power laws, with their errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

LEVEL = 0.95  # confidence level of the intervals of exponents


class Estimate(NamedTuple):
    """A number and an estimate of its error."""

    value: float
    error: float


class PowerLaw(NamedTuple):
    r"""Power law $y = C\prod_i x_i^{p_i}$.

    Attributes:
        factor: $C$.
        exponents: $p_i$.
        half_widths: half-widths of the 95 % intervals of the exponents.
    """

    factor: float
    exponents: tuple[float, ...]
    half_widths: tuple[float, ...]

    @property
    def numbers(self) -> dict[str, float | list[float]]:
        """The power law as JSON values."""
        return {
            "factor": self.factor,
            "exponents": list(self.exponents),
            "half_widths": list(self.half_widths),
        }


def fit_powers(y: Float[np.ndarray, " m"], *x: Float[np.ndarray, " m"]) -> PowerLaw:
    """Fits `y` by a power law in the variables `x`, by least squares of logarithms.

    The intervals assume that the residuals are independent noise. The fit needs more
    values than unknowns.
    """
    columns = np.stack([np.ones_like(y), *map(np.log, x)], axis=1)
    fitted = least_squares(columns, np.log(y), np.ones_like(y))
    m, k = columns.shape
    residual = np.sqrt(np.sum((columns @ fitted.values - np.log(y)) ** 2) / (m - k))
    half_widths = stats.t.ppf((1 + LEVEL) / 2, m - k) * residual * fitted.errors
    first, *exponents = fitted.values.tolist()
    factor = float(np.exp(first))
    return PowerLaw(factor, tuple(exponents), tuple(half_widths[1:].tolist()))


class Fit(NamedTuple):
    """Fitted coefficients, with standard errors derived from the errors of the data."""

    values: Float[np.ndarray, " k"]
    errors: Float[np.ndarray, " k"]


def least_squares(
    columns: Float[np.ndarray, "m k"],
    y: Float[np.ndarray, " m"],
    errors: Float[np.ndarray, " m"],
) -> Fit:
    """Least-squares fit to data with known standard errors."""
    scaled, target = columns / errors[:, None], y / errors
    values, *_ = np.linalg.lstsq(scaled, target)
    _, R = np.linalg.qr(scaled)
    inverse = np.linalg.solve(R, np.eye(len(R)))
    return Fit(values, np.sqrt(np.sum(inverse**2, axis=1)))


def extrapolate_to_zero(values: Float[np.ndarray, " k"]) -> Estimate:
    """Extrapolates values to the argument zero, by Neville's scheme.

    The argument is halved from each value to the next, and the values must follow a
    power series in the argument. The error is the last change of the scheme.
    """
    rows = neville(values)
    return Estimate(float(rows[-1]), abs(float(rows[-1] - rows[-2])))


def neville(values: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """Neville's estimates from the last value, the last two, …, along the first axis.

    The argument is halved from each value to the next.
    """
    rows, estimates = values, [values[-1]]
    for k in range(1, len(values)):
        rows = (2**k * rows[1:] - rows[:-1]) / (2**k - 1)
        estimates.append(rows[-1])
    return np.stack(estimates)


def crossing_point(
    x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"], level: float
) -> float:
    """The `x` at which `y` first exceeds `level`, by interpolation of logarithms."""
    i = int(np.argmax(y > level))
    fraction = np.log(level / y[i - 1]) / np.log(y[i] / y[i - 1])
    return float(x[i - 1] * (x[i] / x[i - 1]) ** fraction)
