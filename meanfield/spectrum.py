"""Effective rank of a covariance, computed in NumPy, for runs and plots."""

import numpy as np


def effective_rank(eigenvalues: np.ndarray) -> np.ndarray:
    r"""Effective rank $e^{H(p)}$ of normalised eigenvalues $p$, with $H$ the entropy.

    It is 1 for a line and `d` for a ball.

    Args:
        eigenvalues: array `[..., d]` in any order; negative ones count as zero.

    Returns:
        Array `[...]`; NaN where an eigenvalue is not finite, 0 where all are zero.

    Examples:
        >>> from meanfield.spectrum import effective_rank
        >>> print(effective_rank(np.array([[1.0, 1.0], [1.0, 0.0], [0.9, 0.1]])))
        [2.     1.     1.3841]
    """
    positive = np.maximum(eigenvalues, 0.0)  # NaN stays NaN
    largest = positive.max(axis=-1, keepdims=True)
    ratios = positive / np.where(largest > 0, largest, 1.0)
    total = ratios.sum(axis=-1, keepdims=True)
    p = ratios / np.where(total > 0, total, 1.0)
    logs = np.log(np.where(p > 0, p, 1.0))
    rank = np.exp(-(p * logs).sum(axis=-1))
    return np.where(largest[..., 0] == 0, 0.0, rank)
