"""Scaling that protects sums of squares from overflow, and significance of errors."""

import math

import numpy as np
from jaxtyping import Float

SHARP = 1e-10  # smaller relative errors are mere rounding; they become 0


def power_of_two(*arrays: np.ndarray) -> float:
    """A power of two near the largest entry, so that division by it is exact.

    This division is needed for entries above 1e154 or below 1e-162, since floats cannot
    hold their squares.
    """
    largest = max((float(np.max(np.abs(a), initial=0)) for a in arrays), default=0.0)
    if not 0 < largest < math.inf:
        return 1.0
    exponent = math.frexp(largest)[1]
    return math.ldexp(1.0, max(-1021, min(exponent, 1023)))


def root_mean_square(
    values: Float[np.ndarray, " n"], shares: Float[np.ndarray, " n"]
) -> float:
    """Root mean square of `values`, weighted by `shares` that sum to one."""
    scale = power_of_two(values)
    return scale * math.sqrt(float(shares @ (values / scale) ** 2))


def root_error(root: float, excess: float, deficit: float) -> float:
    """Error of a square root, from the error of its square.

    Args:
        root: the square root.
        excess: the amount by which the square may be too large.
        deficit: the amount by which the square may be too small.
    """
    loss = min(math.sqrt(excess), root)
    low = math.sqrt((root - loss) * (root + loss))
    return max(root - low, math.hypot(root, math.sqrt(deficit)) - root)


def significant_error(error: float, value: float) -> float:
    """Returns `error`, or zero if it is no larger than the rounding of `value`."""
    return error if error > SHARP * value else 0.0
