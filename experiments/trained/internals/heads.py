r"""Quantities of attention heads that appear in the hypotheses of theorems.

A score is $y \cdot Ax$ with $A = K^\top Q/\sqrt k$, and a value matrix is $V = OW$,
without the gains of the normalisation before a head. A random head has $|A - A^\top|
\approx |A + A^\top|$ and $\mathrm{tr}\,V \approx 0$. The moduli of the negative
eigenvalues of $A + A^\top$ make up about half of the sum of all moduli.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from meanfield.models import HeadWeights
from meanfield.models.blocks import eigenvalues
from meanfield.scores import Dot
from meanfield.training import SelfAttention


class HeadNumbers(NamedTuple):
    r"""Quantities of the heads of a layer; norms are Frobenius norms.

    Attributes:
        smallest: smallest of the eigenvalues of $A + A^\top$ that can be nonzero.
        largest: largest of these eigenvalues.
        negative: sum of the moduli of the negative eigenvalues of $A + A^\top$, divided
            by the sum of all moduli; 0 if the matrix is positive semidefinite, 1 if it
            is negative semidefinite. The number of negative eigenvalues would not be
            informative: if $2k \le d$, it is half of the number of nonzero ones.
        skew: $|A - A^\top| / |A + A^\top|$; 0 if $A$ is symmetric.
        product: fraction of eigenvalues of $VA$ with positive real part, among the `k`
            that can be nonzero.
        value: fraction of eigenvalues of $V$ with positive real part, among the `k`
            that can be nonzero.
        asymmetry: $|V - V^\top| / |V + V^\top|$; 0 if $V$ is symmetric.
        likeness: $\mathrm{tr}\,V / (\sqrt k\,|V|)$; 1 if $V$ is a positive multiple of
            an orthogonal projection, the matrix of rank `k` closest to the identity.
        size: $|V|$.
    """

    smallest: Float[np.ndarray, " h"]
    largest: Float[np.ndarray, " h"]
    negative: Float[np.ndarray, " h"]
    skew: Float[np.ndarray, " h"]
    product: Float[np.ndarray, " h"]
    value: Float[np.ndarray, " h"]
    asymmetry: Float[np.ndarray, " h"]
    likeness: Float[np.ndarray, " h"]
    size: Float[np.ndarray, " h"]


def head_numbers(layer: SelfAttention) -> HeadNumbers:
    """The quantities of each head of a layer."""
    weights = weights_of(layer)
    spectra = eigenvalues(weights)
    score = 2 * spectra.score
    A = np.swapaxes(weights.K, 1, 2) @ weights.Q / weights.epsilon
    V = weights.value
    k = weights.Q.shape[1]
    size = np.linalg.norm(V, axis=(1, 2))
    return HeadNumbers(
        smallest=score.min(axis=1),
        largest=score.max(axis=1),
        negative=-score.clip(max=0).sum(axis=1) / np.abs(score).sum(axis=1),
        skew=asymmetry(A),
        product=np.mean(np.real(spectra.product) > 0, axis=1),
        value=np.mean(np.real(spectra.value) > 0, axis=1),
        asymmetry=asymmetry(V),
        likeness=np.trace(V, axis1=1, axis2=2) / (np.sqrt(k) * size),
        size=size,
    )


def weights_of(layer: SelfAttention) -> HeadWeights:
    """The matrices of the heads of a layer in double precision; biases are zero."""
    heads, score = layer.heads, layer.heads.score
    assert isinstance(score, Dot)
    matrices = score.Q, score.K, heads.value_projection, heads.output_projection
    Q, K, W, O = (np.asarray(matrix, np.float64) for matrix in matrices)
    h, k, d = Q.shape
    none = np.zeros((h, k))
    return HeadWeights(Q, K, none, none, W, none, O, output_bias=np.zeros((h, d)))


def asymmetry(matrices: Float[np.ndarray, "h d d"]) -> Float[np.ndarray, " h"]:
    """Ratio of the norms of the skew part and of the symmetric part of a matrix."""
    transposed = np.swapaxes(matrices, 1, 2)
    norm = lambda parts: np.linalg.norm(parts, axis=(1, 2))
    return norm(matrices - transposed) / norm(matrices + transposed)
