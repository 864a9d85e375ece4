"""Sums of squares of numbers of any size, and errors that are more than rounding."""

import math

import numpy as np
from jaxtyping import Float

SHARP = 1e-10  # relative, below which an error is rounding and counts as none


def power_of_two(*arrays: np.ndarray) -> float:
    """A power of two near the largest entry: dividing by it rounds nothing.

    Squares of entries above 1e154 or below 1e-162 leave the range of floats.
    """
    largest = max((float(np.max(np.abs(a), initial=0)) for a in arrays), default=0.0)
    if not 0 < largest < math.inf:
        return 1.0
    exponent = math.frexp(largest)[1]
    return math.ldexp(1.0, max(-1021, min(exponent, 1023)))


def root_mean_square(
    values: Float[np.ndarray, " n"], shares: Float[np.ndarray, " n"]
) -> float:
    """The root of the mean of squares, for shares that sum to one."""
    scale = power_of_two(values)
    return scale * math.sqrt(float(shares @ (values / scale) ** 2))


def root_error(root: float, below: float, above: float) -> float:
    """How far off a root is, by what its square may be off.

    Args:
        root: of the square.
        below: by how much the square may be too large.
        above: by how much it may be too small.
    """
    loss = min(math.sqrt(below), root)
    low = math.sqrt((root - loss) * (root + loss))
    return max(root - low, math.hypot(root, math.sqrt(above)) - root)


def beyond_rounding(error: float, value: float) -> float:
    """An error, or zero where it is rounding of the value."""
    return error if error > SHARP * value else 0.0
