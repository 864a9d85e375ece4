r"""Remaining error of a convergent sequence, estimated from its last two changes.

If the error is a power of a width, $E(w) = c\,w^p$, the ratio of two changes gives the
power: `fine_change` at the last refinement, `coarse_change` at the one before. The
remaining error follows from it. The estimate has a lower bound, since changes can fall
fast, or be small by accident. If changes hardly fall, or grow, or the one before the
last is not finite, the remaining error is `SAFETY * MAX_FACTOR` times the last change.
"""

import math

import numpy as np

SAFETY = 2.0  # covers the known errors of 322 of 322 flows: docs/numerics.md
MIN_FACTOR = 1 / 2  # least remaining error over the last change
MAX_FACTOR = 30.0  # largest remaining error over the last change
ACCIDENT = 1 / 16  # least remaining error over the change before the last
POWERS = np.geomspace(2**-6, 2**4, 401)  # candidates for the power of the width


def cell_remainder(fine_change: float, coarse_change: float) -> float:
    """Remaining error after the width of cells has been halved twice."""
    return max(
        _remainder(fine_change, coarse_change, (1.0, 2.0, 4.0)),
        SAFETY * ACCIDENT * coarse_change,
    )


def box_remainder(fine_change: float, coarse_change: float) -> float:
    """Remaining error after boxes of a half, three quarters, and the full width."""
    return _remainder(fine_change, coarse_change, (1.0, 4 / 3, 2.0))


def _remainder(
    fine_change: float, coarse_change: float, widths: tuple[float, float, float]
) -> float:
    """Remaining error after two changes between three widths, the finest first."""
    if fine_change == 0 or not math.isfinite(fine_change):
        return fine_change
    errors = [width**POWERS for width in widths]
    ratios = (errors[1] - errors[0]) / (errors[2] - errors[1])  # fall with the power
    rest = errors[0] / (errors[1] - errors[0])
    power = (
        np.searchsorted(-ratios, -fine_change / coarse_change)
        if math.isfinite(coarse_change) and coarse_change
        else 0
    )
    factor = rest[min(power, len(rest) - 1)] if power else MAX_FACTOR
    return SAFETY * fine_change * float(np.clip(factor, MIN_FACTOR, MAX_FACTOR))


def time_error(growth: float, *, turn: float, has_noise: bool) -> float:
    r"""Relative error of the time steps, which no comparison of cells shows.

    A step is at most a fraction `turn` of an e-fold of the box, for cells of any width.
    Steps are of third order, or of second order with noise by splitting. Under
    self-amplifying growth, as $\dot s = 2As^2$, a step has an error of
    $(2\,\mathtt{turn})^4$ of the variance, and this error grows like the variance.

    Args:
        growth: the factor by which the variance grows.
        turn: the largest step, in e-folds of the box.
        has_noise: whether there is noise.
    """
    steady = 2 * abs(math.log(growth)) * turn**3 * max(1.0, growth)
    return steady + (turn**2 if has_noise else 0.0)
