r"""Spectra of the matrices of attention heads, computed with low-rank factors.

$A = K^\top Q / \epsilon$ has rank $d_k$, so its symmetric and its skew part are
$U M U^\top$ with $U = (Q^\top\ K^\top)$ and a small $M$. If $U = PR$ with orthonormal
$P$, they have the same nonzero eigenvalues as $R M R^\top$. The matrices $V = OW$ and
$WO$ also have the same nonzero eigenvalues.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Complex, Float

from ._weights import HeadWeights


@final
@dataclass(frozen=True)
class HeadSpectra:
    r"""Spectra of the scores $y^\top A x$ and of the value $V$ of one head.

    `negative` is a ratio of sums because counts are not informative: if
    $2 d_k \leq d$, half of the nonzero eigenvalues are negative for generic $Q, K$.

    Attributes:
        layer: the layer, counted from zero.
        head: the head, counted from zero.
        score_norm: $\|A\|$, with the matrix $A = K^\top Q / \epsilon$ of the scores.
        largest: the largest eigenvalue of the symmetric part of $A$; it may be zero.
        smallest: the smallest eigenvalue of the symmetric part of $A$.
        negative: the sum of $|\lambda|$ over the negative eigenvalues of the symmetric
            part of $A$, divided by the sum over all its eigenvalues.
        skew_norm: the norm of the skew part of $A$.
        value_norm: $\|V\|$.
        radius: the spectral radius of $V$.
        positive: among the $d_k$ eigenvalues of $V$ that can be nonzero, the fraction
            with a positive real part.

    Examples:
        >>> from meanfield import models
        >>> first = models.inspect(models.load("minilm")).heads[0]
        >>> first.smallest < 0 < first.largest <= first.score_norm
        True
    """

    layer: int
    head: int
    score_norm: float
    largest: float
    smallest: float
    negative: float
    skew_norm: float
    value_norm: float
    radius: float
    positive: float


def spectra(layer: int, weights: HeadWeights) -> Iterator[HeadSpectra]:
    """The spectra of each head of a layer."""
    score_norms = product_norms(_transpose(weights.Q), weights.K) / weights.epsilon
    value_norms = product_norms(weights.output_projection, weights.value_projection)
    for head, (score_norm, value_norm) in enumerate(
        zip(score_norms.tolist(), value_norms.tolist(), strict=True)
    ):
        symmetric, skew = halves(weights.Q[head], weights.K[head])
        eigenvalues = symmetric / weights.epsilon
        moduli = np.abs(eigenvalues).sum()
        # The eigenvalues of WO are the nonzero ones of OW.
        values = np.linalg.eigvals(
            weights.value_projection[head] @ weights.output_projection[head]
        )
        yield HeadSpectra(
            layer=layer,
            head=head,
            score_norm=score_norm,
            largest=float(eigenvalues.max()),
            smallest=float(eigenvalues.min()),
            negative=float(-eigenvalues.clip(max=0).sum() / moduli) if moduli else 0.0,
            skew_norm=skew / weights.epsilon,
            value_norm=value_norm,
            radius=float(np.abs(values).max()),
            positive=float(np.mean(values.real > 0)),
        )


def product_norms(
    tall: Float[np.ndarray, "h d k"], wide: Float[np.ndarray, "h k d"]
) -> Float[np.ndarray, " h"]:
    """Spectral norms of the products `tall @ wide`, one for each head."""
    # Orthonormal factors preserve the norm, so d x d products are never formed.
    R = np.linalg.qr(tall, mode="r")
    S = np.asarray(np.linalg.qr(_transpose(wide), mode="r"))
    return np.linalg.norm(R @ _transpose(S), ord=2, axis=(-2, -1))


def halves(
    Q: Float[np.ndarray, "k d"], K: Float[np.ndarray, "k d"]
) -> tuple[Float[np.ndarray, " m"], float]:
    """Eigenvalues of the symmetric part of KᵀQ, and the norm of its skew part."""
    k, d = Q.shape
    R = np.asarray(np.linalg.qr(np.hstack([Q.T, K.T]), mode="r"))
    product = R[:, k:] @ R[:, :k].T
    eigenvalues = np.linalg.eigvalsh((product + product.T) / 2)
    zeros = np.zeros(d - len(eigenvalues))
    skew = np.linalg.norm((product - product.T) / 2, ord=2)
    return np.concatenate([eigenvalues, zeros]), float(skew)


def _transpose(matrices: Float[np.ndarray, "h m n"]) -> Float[np.ndarray, "h n m"]:
    return np.swapaxes(matrices, -1, -2)


class Eigenvalues(NamedTuple):
    r"""For each head of a layer, the eigenvalues that can be nonzero.

    Attributes:
        score: eigenvalues of the symmetric part of $K^\top Q / \epsilon$, increasing.
        value: eigenvalues of $V = OW$.
        product: eigenvalues of $VA$, where $A = K^\top Q / \epsilon$.
    """

    score: Float[np.ndarray, "h m"]
    value: Complex[np.ndarray, "h k"]
    product: Complex[np.ndarray, "h k"]


def eigenvalues(weights: HeadWeights) -> Eigenvalues:
    """For each head of a layer, the eigenvalues that can be nonzero."""
    Q, K = weights.Q, weights.K
    O, W = weights.output_projection, weights.value_projection
    _, k, d = Q.shape
    symmetric = [halves(q, key)[0] for q, key in zip(Q, K, strict=True)]
    nonzero = np.stack(symmetric)[:, : min(2 * k, d)]  # drops the zeros at the end
    # XY and YX have the same nonzero eigenvalues.
    value = np.linalg.eigvals(W @ O)
    product = np.linalg.eigvals((W @ np.swapaxes(K, -1, -2)) @ (Q @ O))
    return Eigenvalues(
        nonzero / weights.epsilon,
        value.astype(np.complex128),
        product.astype(np.complex128) / weights.epsilon,
    )
