r"""Whether tokens may be draws of a Gaussian: Mardia's tests.

Source: Mardia, *Measures of multivariate skewness and kurtosis with applications*,
Biometrika 57 (1970).
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import erfc, gammaincc

LEAST = 8  # tokens for each dimension, below which the limits of the tests are far
MOST_DIMENSIONS = 30  # whose third moments are formed


def normality(x: Float[np.ndarray, "n d"]) -> float:
    r"""A p-value of the hypothesis that `x` are draws of a Gaussian.

    With $z$ the tokens in units of their covariance, $n b/6$ of the skewness
    $b = |n^{-1} \sum z^{\otimes 3}|^2$ tends to $\chi^2$ with $d(d+1)(d+2)/6$ degrees
    of freedom, and the kurtosis $n^{-1} \sum |z|^4$ to a normal of mean $d(d+2)$ and
    variance $8d(d+2)/n$. Twice the smaller p-value, at most 1; NaN where the tokens
    are too few, too many-dimensional, or lie in a plane.
    """
    n, d = x.shape
    centred = x - x.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    rounding = n * np.finfo(x.dtype).eps
    if n < LEAST * d or d > MOST_DIMENSIONS or singular[-1] <= rounding * singular[0]:
        return math.nan
    z = math.sqrt(n) * left
    skewness = float(
        np.sum((np.einsum("na,nb,nc->abc", z, z, z, optimize=True) / n) ** 2)
    )
    kurtosis = float(np.mean(np.sum(z**2, axis=1) ** 2))
    freedom, expected = d * (d + 1) * (d + 2) / 6, d * (d + 2)
    deviation = abs(kurtosis - expected) / math.sqrt(8 * expected / n)
    tails = gammaincc(freedom / 2, n * skewness / 12), erfc(deviation / math.sqrt(2))
    return min(1.0, 2 * float(min(tails)))
