"""The eigenvalues of the matrices of heads, by their thin factors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float

from ._spectra import halves
from ._weights import HeadWeights


class Eigenvalues(NamedTuple):
    r"""Those of each head of a layer that can be nonzero.

    Attributes:
        score: of the symmetric part of $A = K^\top Q / \epsilon$, increasing.
        value: of $V = OW$.
        product: of $VA$.
    """

    score: Float[np.ndarray, "h m"]
    value: Complex[np.ndarray, "h k"]
    product: Complex[np.ndarray, "h k"]


def eigenvalues(weights: HeadWeights) -> Eigenvalues:
    """The eigenvalues of each head of a layer."""
    Q, K, O, W = weights.Q, weights.K, weights.writing, weights.reading
    _, k, d = Q.shape
    symmetric = [halves(q, key)[0] for q, key in zip(Q, K, strict=True)]
    nonzero = np.stack(symmetric)[:, : min(2 * k, d)]  # the zeros come last
    # XY and YX have the same nonzero eigenvalues.
    value = np.linalg.eigvals(W @ O)
    product = np.linalg.eigvals((W @ np.swapaxes(K, -1, -2)) @ (Q @ O))
    return Eigenvalues(
        nonzero / weights.epsilon,
        value.astype(np.complex128),
        product.astype(np.complex128) / weights.epsilon,
    )
