"""How many directions a covariance really has; NumPy only, for runs and pictures."""

import numpy as np


def effective_rank(eigenvalues: np.ndarray) -> np.ndarray:
    r"""$e^{H(p)}$ with $p$ the normalised eigenvalues: 1 for a line, `d` for a ball.

    Args:
        eigenvalues: of shape `[..., d]`, in any order; negative ones count as zero.

    Returns:
        Of shape `[...]`; NaN where an eigenvalue is not finite, 0 where all are zero.

    Examples:
        >>> from meanfield.spectrum import effective_rank
        >>> print(effective_rank(np.array([[1.0, 1.0], [1.0, 0.0], [0.9, 0.1]])))
        [2.     1.     1.3841]
    """
    positive = np.maximum(eigenvalues, 0.0)  # NaN stays NaN
    largest = positive.max(axis=-1, keepdims=True)
    scaled = positive / np.where(largest > 0, largest, 1.0)
    total = scaled.sum(axis=-1, keepdims=True)
    p = scaled / np.where(total > 0, total, 1.0)
    logs = np.log(np.where(p > 0, p, 1.0))
    rank = np.exp(-(p * logs).sum(axis=-1))
    return np.where(largest[..., 0] == 0, 0.0, rank)
