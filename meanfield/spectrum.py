r"""Moments, spectrum and effective rank of a covariance, in NumPy, for runs and plots.

Covariances are given by factors $Y$ with $\Sigma = YY^\top$.
"""

import numpy as np

# Singular values below `_ROUNDINGS` times the rounding error are treated as zero.
_ROUNDINGS = 8.0


def token_moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Mean and covariance factor of tokens, $Y_{\cdot i} = \sqrt{w_i}(x_i - m)$.

    Args:
        x: tokens, `[..., n, d]`.
        weights: weights with sum one, `[n]`.

    Returns:
        The mean `[..., d]` and the factor `[..., d, n]`.

    Examples:
        >>> from meanfield.spectrum import token_moments
        >>> mean, Y = token_moments(np.array([[0.0], [2.0]]), np.full(2, 0.5))
        >>> print(mean, Y @ Y.T)
        [1.] [[1.]]
    """
    mean = weights @ x
    factor = np.sqrt(weights)[:, None] * (x - mean[..., None, :])
    return mean, np.swapaxes(factor, -1, -2)


def spectrum(factor: np.ndarray, rounding: np.ndarray | float = 0.0) -> np.ndarray:
    r"""The $d$ eigenvalues of $YY^\top$ in decreasing order.

    They are squared singular values. Their error is about $\epsilon^2$ relative to the
    largest, whereas an eigenvalue solver on $\Sigma$ would have an error of about
    $\epsilon$.

    Args:
        factor: $Y$, `[..., d, r]`.
        rounding: rounding error of the states, `[...]`; eigenvalues at this level are
            zero.

    Returns:
        Array `[..., d]`; NaN where an entry of $Y$ is not finite.

    Examples:
        >>> from meanfield.spectrum import spectrum
        >>> print(spectrum(np.array([[2.0], [0.0]])))
        [4. 0.]
    """
    d, r = factor.shape[-2:]
    whole = np.asarray(np.isfinite(factor).all(axis=(-2, -1)))
    singular = np.linalg.svd(
        np.where(whole[..., None, None], factor, 0.0), compute_uv=False
    )
    missing = np.zeros((*singular.shape[:-1], max(d - r, 0)))
    singular = np.concatenate([singular, missing], axis=-1)
    floor = _ROUNDINGS * np.asarray(rounding)[..., None]
    eigenvalues = np.where(singular <= floor, 0.0, singular) ** 2
    return np.where(whole[..., None], eigenvalues, np.nan)


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
