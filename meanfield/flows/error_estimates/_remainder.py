r"""Remaining error of a convergent sequence, estimated from its last two changes.

The error is assumed to be a power of a width, $E(w) = c\,w^p$. The ratio of the change
at the last refinement, `fine_change`, to the one before, `coarse_change`, gives the
power, from which the remaining error follows. The estimate has a lower bound, since a
change can be small by accident. If the changes hardly fall, or grow, or `coarse_change`
is not finite, the remaining error is `SAFETY * MAX_FACTOR` times `fine_change`.
"""

import math

import numpy as np

SAFETY = 2.0  # covers the errors of all 322 tested flows; see docs/numerics.md
MIN_FACTOR = 1 / 2  # smallest ratio of the remaining error to the last change
MAX_FACTOR = 30.0  # largest ratio of the remaining error to the last change
ACCIDENT = 1 / 16  # smallest ratio of the remaining error to the change before the last
POWERS = np.geomspace(2**-6, 2**4, 401)  # candidates for the power p of the width


def cell_remainder(fine_change: float, coarse_change: float) -> float:
    """Remaining error of the finest cells, after their width was halved twice."""
    return max(
        _remainder(fine_change, coarse_change, (1.0, 2.0, 4.0)),
        SAFETY * ACCIDENT * coarse_change,
    )


def box_remainder(fine_change: float, coarse_change: float) -> float:
    """Remaining error of the full box, from flows in half and three quarters of it."""
    return _remainder(fine_change, coarse_change, (1.0, 4 / 3, 2.0))


def _remainder(
    fine_change: float, coarse_change: float, widths: tuple[float, float, float]
) -> float:
    """Remaining error at the first of three widths, from two changes between them."""
    if fine_change == 0 or not math.isfinite(fine_change):
        return fine_change
    errors = [width**POWERS for width in widths]
    # The ratio of the two changes decreases as the power grows.
    ratios = (errors[1] - errors[0]) / (errors[2] - errors[1])
    rest = errors[0] / (errors[1] - errors[0])
    power = (
        np.searchsorted(-ratios, -fine_change / coarse_change)
        if math.isfinite(coarse_change) and coarse_change
        else 0
    )
    factor = rest[min(power, len(rest) - 1)] if power else MAX_FACTOR
    return SAFETY * fine_change * float(np.clip(factor, MIN_FACTOR, MAX_FACTOR))


def time_error(growth: float, *, turn: float, has_noise: bool) -> float:
    r"""Relative error of the time steps, which finer cells would not reveal.

    A step changes the box by at most `turn` e-folds, whatever the width of the cells.
    Steps are of third order, or of second order if noise is added by splitting. Under
    self-amplifying growth, such as $\dot s = 2As^2$, a step has a relative error of the
    order of $(2\,\mathtt{turn})^4$. If the variance later grows by a factor, this
    relative error grows by the same factor.

    Args:
        growth: the factor by which the variance grows.
        turn: the largest step, in e-folds of the box.
        has_noise: whether there is noise.
    """
    steady = 2 * abs(math.log(growth)) * turn**3 * max(1.0, growth)
    return steady + (turn**2 if has_noise else 0.0)
