"""ReLU attention, whose weights are the positive parts of scores."""

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield._typing import Numbers, Scalar
from meanfield.errors import NotClosedError
from meanfield.fields import AbstractField, Affine
from meanfield.measures import Gaussian, Points
from meanfield.scores import AbstractQuadraticScore, AbstractScore, Dot

from ._attention import Attention, variant
from ._coupling import AbstractClosedFormCoupling, AbstractGaussianCoupling, require_dot
from .pointwise import AbstractCubic, LinkedGaussianMean, LinkedMean, relu_averages


class Relu(AbstractGaussianCoupling, AbstractClosedFormCoupling, AbstractCubic):
    r"""$\kappa_\mu(x, y) = \max(s(x, y), 0)$.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.attention import Relu
        >>> from meanfield.scores import Dot
        >>> mu = Gaussian(jnp.zeros(1), jnp.array([[2.0]]))
        >>> print(Relu().affine(Dot(jnp.eye(1), jnp.eye(1)), mu).linear)  # ΣA/2
        [[2.]]
    """

    @override
    def barycentre(self, score: AbstractScore, mu: Points) -> AbstractField:
        return LinkedMean(jax.nn.relu, score, mu)

    @override
    def gaussian_barycentre(self, score: Dot, mu: Gaussian) -> AbstractField:
        return LinkedGaussianMean(relu_averages, score, mu)

    @override
    def affine(self, score: AbstractQuadraticScore, mu: Gaussian) -> Affine:
        r"""$L = \tfrac12 \Sigma A$, for mean zero and no biases.

        By the symmetry $y \to -y$, this is exactly half the barycentre of linear
        attention; castin2025, section 2.5, overlooks this case (ERRATA C3, N4). A flow
        keeps the mean zero, so it suffices to check the initial measure. For traced
        values the result is NaN if the mean or a bias is not zero.

        Raises:
            NotClosedError: if the mean or a bias is not zero.
        """
        dot = require_dot(score, "relu")
        parts = (mu.mean, dot.query_bias, dot.key_bias)
        if any(is_concrete(part) and np.any(np.asarray(part)) for part in parts):
            raise NotClosedError(
                "ReLU attention keeps a Gaussian Gaussian only if its mean is zero and "
                "the scores have no bias. Use mean 0, points, or `projected`."
            )
        linear = mu.covariance @ dot.A / 2
        zero = jnp.all(jnp.concatenate(parts) == 0)
        return Affine(linear, jnp.where(zero, jnp.zeros_like(mu.mean), jnp.nan))


@variant("relu", "permutation", "orthogonal", cost="$n^2$")
def relu(Q: Numbers, K: Numbers, V: Numbers, *, epsilon: Scalar = 1.0) -> Attention:
    r"""ReLU attention with weights $\max(Qx\cdot Ky, 0)/\epsilon$; castin2025, 2.5."""
    return Attention(Dot(Q, K, epsilon), Relu(), V)
