"""Bilinear scores as squared distances, in which nothing large cancels."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from typing_extensions import override

from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from ._score import AbstractQuadraticScore, Dot, Factors
from .differences import Differences

ASYMMETRY = 10  # units in the last place, times the dimension, that rounding leaves


class Balanced(AbstractQuadraticScore):
    r"""$-\tfrac12|Mx' - Ny'|^2$, a bilinear score less functions of one token each.

    With $N^\top M = A$ and $x' = x - \alpha_X$, $y' = y - \alpha_Y$: the same plan
    between two marginals as by $y'\cdot Ax'$, with potentials that are larger by
    $\tfrac12|Mx'|^2$ and $\tfrac12|Ny'|^2$. Left in the potentials, numbers of that
    size would round away what tells tokens of one group apart. For derivatives they are
    constants, one for each token, which potentials absorb.

    Attributes:
        dot: $y'\cdot Ax'$.
        M: acts on queries; see `balanced_factors`.
        N: acts on keys.
        scale: of both squares and products.
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
        by_query = parts.of_query - self.square_of_queries(queries.x)
        by_key = parts.of_key - self.square_of_keys(keys.x)
        return Factors(parts.query, parts.key, by_query, by_key)

    @override
    def differences(self, queries: Tokens, keys: Tokens) -> Differences:
        sides = zip(self.origins, (self.M, self.N), strict=True)
        images = [_along(origin[None], matrix)[0] for origin, matrix in sides]
        # Zero where both sides are alike: then no token is rounded once more.
        apart = images[0] - images[1]
        q = _along(queries.x, self.M) - apart[None]
        return Differences(q, _along(keys.x, self.N), self.scale / 2)

    def square_of_queries(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        r"""$\tfrac12|Mx'|^2$, a constant for derivatives."""
        return self._square(x - self.origins[0][None], self.M)

    def square_of_keys(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        r"""$\tfrac12|Ny'|^2$, likewise."""
        return self._square(y - self.origins[1][None], self.N)

    def _square(self, x: Float[Array, "n d"], matrix: Array) -> Float[Array, " n"]:
        square = self.scale * jnp.sum(_along(x, matrix) ** 2, axis=1) / 2
        return jax.lax.stop_gradient(square)

    def scaled(self, fraction: Float[Array, ""]) -> "Balanced":
        """`fraction` times the score."""
        values = self.dot.epsilon / fraction, self.scale * fraction
        return eqx.tree_at(lambda s: (s.dot.epsilon, s.scale), self, values)

    @property
    def transposed(self) -> "Balanced":
        """With queries and keys exchanged."""
        dot = self.dot
        biases = {"query_bias": dot.key_bias, "key_bias": dot.query_bias}
        exchanged = Dot(dot.K, dot.Q, dot.epsilon, **biases)
        origins = self.origins[1], self.origins[0]
        return Balanced(exchanged, self.N, self.M, self.scale, origins)

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
        at_origins = self._square(x, self.M)[0] + self._square(y, self.N)[0]
        return self.dot.constant - at_origins

    @property
    @override
    def bilinear(self) -> Dot:
        return self.dot.bilinear

    @override
    def of_keys(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        constant = self._square(self.origins[1][None], self.N)
        return self.dot.of_keys(y) - self.square_of_keys(y) + constant

    @override
    def of_queries(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        constant = self._square(self.origins[1][None], self.N)
        return self.dot.of_queries(x) - self.square_of_queries(x) - constant


def balanced_factors(dot: Dot) -> tuple[Float[Array, "r d"], Float[Array, "r d"]]:
    r"""$M$ and $N$ with $N^\top M = A$, one like the other, constant for derivatives.

    Of a symmetric $A$ from its eigenvectors, $N = \pm M$ row by row, and $N = M$ where
    it is positive: tokens in one group have images in one. Else from its singular ones.
    """
    A = jax.lax.stop_gradient(dot.A)
    rank = min(dot.Q.shape)

    def of_symmetric() -> tuple[Array, Array]:
        values, U = jnp.linalg.eigh((A + A.T) / 2)
        order = jnp.argsort(-jnp.abs(values))[:rank]
        values, rows = values[order], U.T[order]
        M = jnp.sqrt(jnp.abs(values))[:, None] * rows
        return M, jnp.where(values < 0, -1, 1).astype(M.dtype)[:, None] * M

    def of_other() -> tuple[Array, Array]:
        U, values, W = jnp.linalg.svd(A)
        roots = jnp.sqrt(values)[:rank, None]
        return roots * W[:rank], roots * U.T[:rank]

    return jax.lax.cond(is_symmetric(A), of_symmetric, of_other)


def is_symmetric(A: Float[Array, "d d"]) -> Bool[Array, ""]:
    """Whether a matrix is, but for rounding."""
    slack = ASYMMETRY * A.shape[0] * jnp.finfo(A.dtype).eps * jnp.max(jnp.abs(A))
    return jnp.all(jnp.abs(A - A.T) <= slack)


def _along(x: Float[Array, "n d"], matrix: Float[Array, "r d"]) -> Float[Array, "n r"]:
    return jnp.matmul(x, matrix.T, precision=HIGHEST)
