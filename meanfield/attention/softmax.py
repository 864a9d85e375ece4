"""Softmax attention: exponential weights, normalised over the keys."""

from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.fields import AbstractField, Affine
from meanfield.measures import Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot

from ._attention import Attention, variant
from ._centring import about
from ._coupling import AbstractGaussianCoupling, TiltedMean, tilted_affine


class Softmax(AbstractGaussianCoupling):
    r"""$\kappa_\mu(x, y) = e^{s(x, y)} / \int e^{s(x, z)} d\mu(z)$."""

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return TiltedMean(about(score, mu.mean), mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = (I + \Sigma B)^{-1}\Sigma A$; castin2025, Lemmas 4.1 and 4.10."""
        B = None if isinstance(score, Dot) else score.B
        return tilted_affine(mu, score.A, B, score.a)


@variant("softmax", "permutation", "orthogonal")
def softmax(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""Softmax attention, scores $Qx \cdot Ky/\epsilon$; castin2025, eq. (2.2)."""
    return Attention(Dot(Q, K, epsilon), Softmax(), V)
