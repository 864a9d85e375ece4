r"""What is left of a sequence, by its last two steps.

An error that falls like a power of a width, $E(w) = c\,w^p$, shows in two changes:
`near` at the last refinement, `far` at the one before. Their ratio tells the power, and
this what is left. Fast falls are not relied on, nor a last change that is small by
accident; and where changes hardly fall, or grow, or the one before the last is not
finite, what is left is at most `SAFETY * MOST` times the last.
"""

import math

import numpy as np

SAFETY = 2.0  # with it 322 of 322 flows known otherwise were covered: docs/numerics.md
LEAST = 1 / 2  # of the last change that may be left, however fast changes fall
MOST = 30.0  # times the last change that may be left, however slowly they do
ACCIDENT = 1 / 16  # of the change before the last that may be left in any case
POWERS = np.geomspace(2**-6, 2**4, 401)  # of the width that errors may fall by


def of_cells(near: float, far: float) -> float:
    """What is left to change when cells have been halved twice."""
    return max(_left(near, far, (1.0, 2.0, 4.0)), SAFETY * ACCIDENT * far)


def of_box(near: float, far: float) -> float:
    """What is left when a box had a half, three quarters, then all of its width."""
    return _left(near, far, (1.0, 4 / 3, 2.0))


def _left(near: float, far: float, widths: tuple[float, float, float]) -> float:
    """What is left after two changes, of an error at three widths, the last first."""
    if near == 0 or not math.isfinite(near):
        return near
    errors = [width**POWERS for width in widths]
    ratios = (errors[1] - errors[0]) / (errors[2] - errors[1])  # they fall
    rest = errors[0] / (errors[1] - errors[0])
    power = np.searchsorted(-ratios, -near / far) if math.isfinite(far) and far else 0
    factor = rest[min(power, len(rest) - 1)] if power else MOST
    return SAFETY * near * float(np.clip(factor, LEAST, MOST))


def of_time(growth: float, *, turn: float, noisy: bool) -> float:
    r"""What steps leave of a relative error that no cells tell.

    They are shares `turn` of an e-fold of the box, however wide its cells: of third
    order, or of second where noise is split off. Where growth feeds itself, as
    $\dot s = 2As^2$, a step is off by $(2\,\mathtt{turn})^4$ of the variance, and what
    is off grows like it.

    Args:
        growth: of the variance, by which factor.
        turn: of an e-fold in a step.
        noisy: whether there is noise.
    """
    steady = 2 * abs(math.log(growth)) * turn**3 * max(1.0, growth)
    return steady + (turn**2 if noisy else 0.0)
