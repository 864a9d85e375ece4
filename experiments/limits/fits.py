"""Limits and powers from a few numbers, each with its error."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

LEVEL = 0.95  # of intervals


class Estimate(NamedTuple):
    """A number and its error."""

    value: float
    error: float


class Powers(NamedTuple):
    r"""$y = C\prod_i x_i^{p_i}$, by least squares of logarithms.

    Attributes:
        factor: $C$.
        exponents: $p_i$.
        half_widths: of their 95 % intervals.
    """

    factor: float
    exponents: tuple[float, ...]
    half_widths: tuple[float, ...]

    @property
    def numbers(self) -> dict[str, float | list[float]]:
        """As JSON values."""
        return {
            "factor": self.factor,
            "exponents": list(self.exponents),
            "half_widths": list(self.half_widths),
        }


def powers(y: Float[np.ndarray, " m"], *x: Float[np.ndarray, " m"]) -> Powers:
    """The powers of `x` that `y` follows.

    Intervals take what is left over for independent noise; with no more numbers than
    unknowns there are none.
    """
    columns = np.stack([np.ones_like(y), *map(np.log, x)], axis=1)
    fitted = least_squares(columns, np.log(y), np.ones_like(y))
    m, k = columns.shape
    spread = np.sqrt(np.sum((columns @ fitted.values - np.log(y)) ** 2) / (m - k))
    half = stats.t.ppf((1 + LEVEL) / 2, m - k) * spread * fitted.errors
    first, *exponents = fitted.values.tolist()
    return Powers(float(np.exp(first)), tuple(exponents), tuple(half[1:].tolist()))


class Fit(NamedTuple):
    """Coefficients, and their standard errors if those of the data are right."""

    values: Float[np.ndarray, " k"]
    errors: Float[np.ndarray, " k"]


def least_squares(
    columns: Float[np.ndarray, "m k"],
    y: Float[np.ndarray, " m"],
    errors: Float[np.ndarray, " m"],
) -> Fit:
    """Least squares of data with known standard errors."""
    scaled, target = columns / errors[:, None], y / errors
    values, *_ = np.linalg.lstsq(scaled, target)
    _, R = np.linalg.qr(scaled)
    inverse = np.linalg.solve(R, np.eye(len(R)))
    return Fit(values, np.sqrt(np.sum(inverse**2, axis=1)))


def extrapolated(values: Float[np.ndarray, " k"]) -> Estimate:
    """The limit of values at arguments that halve, by Neville's scheme.

    For a series in whole powers; the error is the last change of the scheme.
    """
    rows = neville(values)
    return Estimate(float(rows[-1]), abs(float(rows[-1] - rows[-2])))


def neville(values: Float[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
    """The estimates from the last value, the last two, …, along the first axis."""
    rows, last = values, [values[-1]]
    for k in range(1, len(values)):
        rows = (2**k * rows[1:] - rows[:-1]) / (2**k - 1)
        last.append(rows[-1])
    return np.stack(last)


def crossing(
    x: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"], level: float
) -> float:
    """Where growing `y` first passes `level`, on straight lines between logarithms."""
    above = int(np.argmax(y > level))
    part = np.log(level / y[above - 1]) / np.log(y[above] / y[above - 1])
    return float(x[above - 1] * (x[above] / x[above - 1]) ** part)
