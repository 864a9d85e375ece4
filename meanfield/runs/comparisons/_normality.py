r"""Mardia's tests of multivariate normality.

Source: Mardia, *Measures of multivariate skewness and kurtosis with applications*,
Biometrika 57 (1970).
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import erfc, gammaincc

MIN_TOKENS = 8  # tokens per dimension; with fewer, the limit laws are inaccurate
MAX_DIMENSIONS = 30  # limits the d³ entries of the tensor of third moments


def normality(x: Float[np.ndarray, "n d"]) -> float:
    r"""A p-value for the hypothesis that the tokens `x` are draws from a Gaussian.

    Let $z$ be the whitened tokens. For the skewness
    $b = |n^{-1} \sum z^{\otimes 3}|^2$, $n b/6$ tends to $\chi^2$ with
    $d(d+1)(d+2)/6$ degrees of freedom; the kurtosis $n^{-1} \sum |z|^4$ tends to a
    normal law with mean $d(d+2)$ and variance $8d(d+2)/n$. The result is twice the
    smaller p-value, at most 1 (Bonferroni); NaN if the tokens are too few, have too
    many dimensions, or lie in a hyperplane.
    """
    n, d = x.shape
    residuals = x - x.mean(axis=0)
    left, singular, _ = np.linalg.svd(residuals, full_matrices=False)
    is_singular = singular[-1] <= n * np.finfo(x.dtype).eps * singular[0]
    if n < MIN_TOKENS * d or d > MAX_DIMENSIONS or is_singular:
        return math.nan
    z = math.sqrt(n) * left
    third_moments = np.einsum("na,nb,nc->abc", z, z, z, optimize=True) / n
    skewness = float(np.sum(third_moments**2))
    kurtosis = float(np.mean(np.sum(z**2, axis=1) ** 2))
    freedom, mean_kurtosis = d * (d + 1) * (d + 2) / 6, d * (d + 2)
    deviation = abs(kurtosis - mean_kurtosis) / math.sqrt(8 * mean_kurtosis / n)
    tails = gammaincc(freedom / 2, n * skewness / 12), erfc(deviation / math.sqrt(2))
    return min(1.0, 2 * float(min(tails)))
