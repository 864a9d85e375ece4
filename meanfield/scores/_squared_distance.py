"""Scores that are negative squared distances of queries and keys."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._typing import Numbers, Scalar
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from ._score import (
    AbstractQuadraticScore,
    Dot,
    Factors,
    validate_bias,
    validate_matrices,
)
from .differences import (
    Differences,
    choose_by_rounding,
    from_references,
    size_of_scores,
    zero_with_tangent,
)


class SquaredDistance(AbstractQuadraticScore):
    r"""$s(x, y) = -|Qx - Ky|^2/\epsilon$.

    So $A = 2K^\top Q/\epsilon$, $B = 2K^\top K/\epsilon$ and $C = 2Q^\top Q/\epsilon$.

    Attributes:
        origin: vector subtracted from both $Qx$ and $Ky$; it affects rounding only.

    Raises:
        InvalidInputError: if shapes do not match or `epsilon` is not positive.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import SquaredDistance
        >>> score = SquaredDistance(jnp.eye(1), jnp.eye(1))
        >>> print(score(Tokens(jnp.array([[0.0]])), Tokens(jnp.array([[1.0], [2.0]]))))
        [[-1. -4.]]
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]
    epsilon: Float[Array, ""]
    origin: Float[Array, " k"]

    def __init__(
        self,
        Q: Numbers,
        K: Numbers,
        epsilon: Scalar = 1.0,
        *,
        origin: Numbers | None = None,
    ) -> None:
        self.Q, self.K, self.epsilon = validate_matrices(Q, K, epsilon)
        self.origin = validate_bias("origin", origin, self.Q)

    @property
    @override
    def dimension(self) -> int:
        return self.Q.shape[-1]

    @override
    def factors(self, queries: Tokens, keys: Tokens) -> Factors:
        q = jnp.matmul(queries.x, self.Q.T, precision=HIGHEST) - self.origin[None, :]
        k = jnp.matmul(keys.x, self.K.T, precision=HIGHEST) - self.origin[None, :]
        squares = [-jnp.sum(z**2, axis=1) / self.epsilon for z in (q, k)]
        return Factors(2 * q / self.epsilon, k, *squares)

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        parts = self.factors(queries, keys)
        expansion = parts.key, parts.query.T, parts.key_term
        vectors = jax.lax.stop_gradient(self.differences(queries, keys))
        q = vectors.query.T  # each query is its own reference, with score zero

        def exact() -> Array:
            S = from_references(expansion, vectors.key, q, q, vectors.bend)
            return S.T + zero_with_tangent(parts.query_term)[:, None]

        otherwise = lambda: super(SquaredDistance, self).__call__(queries, keys)
        size, columns = size_of_scores(*expansion), vectors.key.shape[1]
        return choose_by_rounding(size, columns, exact, otherwise)

    @override
    def differences(self, queries: Tokens, keys: Tokens) -> Differences:
        q = jnp.matmul(queries.x, self.Q.T, precision=HIGHEST)
        k = jnp.matmul(keys.x, self.K.T, precision=HIGHEST)
        return Differences(q, k, 1 / self.epsilon)

    @property
    @override
    def A(self) -> Float[Array, "d d"]:
        return self.bilinear.A

    @property
    @override
    def B(self) -> Float[Array, "d d"]:
        return 2 * jnp.matmul(self.K.T, self.K, precision=HIGHEST) / self.epsilon

    @property
    @override
    def C(self) -> Float[Array, "d d"]:
        return 2 * jnp.matmul(self.Q.T, self.Q, precision=HIGHEST) / self.epsilon

    @property
    @override
    def a(self) -> Float[Array, " d"]:
        return jnp.zeros(self.Q.shape[1], self.Q.dtype)

    @property
    @override
    def c(self) -> Float[Array, " d"]:
        return jnp.zeros(self.Q.shape[1], self.Q.dtype)

    @property
    @override
    def constant(self) -> Float[Array, ""]:
        return jnp.zeros((), self.Q.dtype)

    @property
    @override
    def bilinear(self) -> Dot:
        return Dot(self.Q, self.K, self.epsilon / 2)

    @override
    def key_terms(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        image = jnp.matmul(y, self.K.T, precision=HIGHEST)
        return -jnp.sum(image**2, axis=1) / self.epsilon

    @override
    def query_terms(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        image = jnp.matmul(x, self.Q.T, precision=HIGHEST)
        return -jnp.sum(image**2, axis=1) / self.epsilon
