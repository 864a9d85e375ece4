"""Curves of a run between its frames, as it comes near to a blow-up."""

import numpy as np

from .data import Ending

_BETWEEN = 40  # points from one frame to the next
_LAST = 1e-14  # of the time: what rounding leaves between it and the blow-up


def approached(
    ending: Ending, times: np.ndarray, curves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Times and curves (time, …) with points between the frames, or as they are.

    Before a blow-up at $t^*$ the logarithm of a number is linear in $\log(t^* - t)$
    from frame to frame, as it is for every power of $t^* - t$; a chord in $t$ would
    hide decades of it.
    """
    before = np.isfinite(ending.t_star) and times.size > 1
    if not before or not np.all(np.diff(times) > 0) or np.any(curves <= 0):
        return times, curves
    left = np.maximum(ending.t_star - times, _LAST * abs(ending.t_star))
    places = np.arange(times.size)
    fine = np.linspace(0, times.size - 1, _BETWEEN * (times.size - 1) + 1)
    ways = np.interp(fine, places, np.log(left))
    inner = ending.t_star - np.exp(ways)
    flat = np.log(curves).reshape(times.size, -1).T
    logs = np.stack([np.interp(fine, places, row) for row in flat], axis=-1)
    inner[::_BETWEEN] = times
    return inner, np.exp(logs).reshape(fine.size, *curves.shape[1:])
