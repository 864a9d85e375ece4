"""Bilinear scores written as squared distances, which avoids cancellation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield._lapack import svd
from meanfield.linalg import HIGHEST, eigh
from meanfield.tokens import Tokens

from ._score import AbstractQuadraticScore, Dot, Factors
from .differences import Differences

ASYMMETRY = 10  # asymmetry due to rounding, in units of eps times the dimension


class BalancedScore(AbstractQuadraticScore):
    r"""The score $-\tfrac12|Mx' - Ny'|^2$, which is bilinear up to squares of tokens.

    Here $N^\top M = A$, $x' = x - \alpha_X$ and $y' = y - \alpha_Y$. Plans with given
    marginals are the same as for the score $y'\cdot Ax'$; the potentials differ by the
    squares $\tfrac12|Mx'|^2$ and $\tfrac12|Ny'|^2$. If the potentials contained these
    large terms, rounding would lose the differences between tokens of the same group.
    In derivatives these terms are constants, one for each token, which the potentials
    absorb.

    Attributes:
        dot: the score $y'\cdot Ax'$.
        M: matrix that acts on queries; see `factorise`.
        N: matrix that acts on keys.
        scale: factor of the whole score, which `dot` already contains.
        origins: $\alpha_X$ and $\alpha_Y$.
    """

    dot: Dot
    M: Float[Array, "r d"]
    N: Float[Array, "r d"]
    scale: Float[Array, ""]
    origins: tuple[Float[Array, " d"], Float[Array, " d"]]

    @override
    def factors(self, queries: Tokens, keys: Tokens) -> Factors:
        parts = self.dot.factors(queries, keys)
        query_term = parts.query_term - self.square_of_queries(queries.x)
        key_term = parts.key_term - self.square_of_keys(keys.x)
        return Factors(parts.query, parts.key, query_term, key_term)

    @override
    def differences(self, queries: Tokens, keys: Tokens) -> Differences:
        sides = zip(self.origins, (self.M, self.N), strict=True)
        images = [_images(origin[None], matrix)[0] for origin, matrix in sides]
        # If the means are equal and `M` equals `N`, the gap is exactly zero, so that
        # subtracting it rounds nothing.
        gap = images[0] - images[1]
        q = _images(queries.x, self.M) - gap[None]
        return Differences(q, _images(keys.x, self.N), self.scale / 2)

    def square_of_queries(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        r"""The squares $\tfrac12|Mx'|^2$ of queries, without gradients."""
        return self._square(x - self.origins[0][None], self.M)

    def square_of_keys(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        r"""The squares $\tfrac12|Ny'|^2$ of keys, without gradients."""
        return self._square(y - self.origins[1][None], self.N)

    def _square(self, x: Float[Array, "n d"], matrix: Array) -> Float[Array, " n"]:
        square = self.scale * jnp.sum(_images(x, matrix) ** 2, axis=1) / 2
        return jax.lax.stop_gradient(square)

    def scale_by(self, fraction: Float[Array, ""]) -> "BalancedScore":
        """The score multiplied by `fraction`."""
        values = self.dot.epsilon / fraction, self.scale * fraction
        return eqx.tree_at(lambda s: (s.dot.epsilon, s.scale), self, values)

    @property
    def transpose(self) -> "BalancedScore":
        """The score with queries and keys exchanged."""
        dot = self.dot
        biases = {"query_bias": dot.key_bias, "key_bias": dot.query_bias}
        transposed_dot = Dot(dot.K, dot.Q, dot.epsilon, **biases)
        origins = self.origins[1], self.origins[0]
        return BalancedScore(transposed_dot, self.N, self.M, self.scale, origins)

    @property
    @override
    def dimension(self) -> int:
        return self.dot.dimension

    @property
    @override
    def A(self) -> Float[Array, "d d"]:
        return self.dot.A

    @property
    @override
    def B(self) -> Float[Array, "d d"]:
        return self.scale * jnp.matmul(self.N.T, self.N, precision=HIGHEST)

    @property
    @override
    def C(self) -> Float[Array, "d d"]:
        return self.scale * jnp.matmul(self.M.T, self.M, precision=HIGHEST)

    @property
    @override
    def a(self) -> Float[Array, " d"]:
        return self.dot.a + self.B @ self.origins[1]

    @property
    @override
    def c(self) -> Float[Array, " d"]:
        return self.dot.c + self.C @ self.origins[0]

    @property
    @override
    def constant(self) -> Float[Array, ""]:
        x, y = (origin[None] for origin in self.origins)
        origin_squares = self._square(x, self.M)[0] + self._square(y, self.N)[0]
        return self.dot.constant - origin_squares

    @property
    @override
    def bilinear(self) -> Dot:
        return self.dot.bilinear

    @override
    def key_terms(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        constant = self._square(self.origins[1][None], self.N)
        return self.dot.key_terms(y) - self.square_of_keys(y) + constant

    @override
    def query_terms(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        constant = self._square(self.origins[1][None], self.N)
        return self.dot.query_terms(x) - self.square_of_queries(x) - constant


def factorise(dot: Dot) -> tuple[Float[Array, "r d"], Float[Array, "r d"]]:
    r"""Factors $M$ and $N$ of equal size with $N^\top M = A$, without gradients.

    For a symmetric $A$ the factors come from its eigenvectors, and each row of $N$
    equals the corresponding row of $M$ or its negative. If $A$ is positive
    semidefinite, $N = M$, so that a token has the same image as a query and as a key.
    For other $A$, the factors come from the singular vectors.
    """
    A = jax.lax.stop_gradient(dot.A)
    rank = min(dot.Q.shape)

    def symmetric_factors() -> tuple[Array, Array]:
        values, U = eigh((A + A.T) / 2)
        order = jnp.argsort(-jnp.abs(values))[:rank]
        values, rows = values[order], U.T[order]
        M = jnp.sqrt(jnp.abs(values))[:, None] * rows
        return M, jnp.where(values < 0, -1, 1).astype(M.dtype)[:, None] * M

    def general_factors() -> tuple[Array, Array]:
        U, values, W = svd(A)
        roots = jnp.sqrt(values)[:rank, None]
        return roots * W[:rank], roots * U.T[:rank]

    return jax.lax.cond(is_symmetric(A), symmetric_factors, general_factors)


def is_symmetric(A: Float[Array, "d d"]) -> Bool[Array, ""]:
    """Whether a matrix is symmetric up to rounding."""
    slack = ASYMMETRY * A.shape[0] * jnp.finfo(A.dtype).eps * jnp.max(jnp.abs(A))
    return jnp.all(jnp.abs(A - A.T) <= slack)


def _images(x: Float[Array, "n d"], matrix: Float[Array, "r d"]) -> Float[Array, "n r"]:
    return jnp.matmul(x, matrix.T, precision=HIGHEST)
