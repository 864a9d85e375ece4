"""Base classes of scores and of quadratic scores, and the inner product `Dot`."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import float_array, is_concrete, positive
from meanfield._typing import Numbers, Scalar
from meanfield.errors import InvalidInputError
from meanfield.linalg import HIGHEST
from meanfield.tokens import Tokens

from .differences import (
    Differences,
)


class AbstractScore(eqx.Module):
    """A function of a query and a key, whose value `-inf` excludes the pair.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import AbstractScore
        >>> class Cosine(AbstractScore):
        ...     def __call__(self, queries, keys):
        ...         unit = lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True)
        ...         return unit(queries.x) @ unit(keys.x).T
        >>> x = Tokens(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> print(Cosine()(x, x))
        [[1. 0.]
         [0. 1.]]
    """

    @abc.abstractmethod
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        """The matrix of scores of all queries (rows) and all keys (columns)."""


class Factors(eqx.Module):
    r"""Scores written as inner products, $s_{ij} = q_i\cdot k_j + r_i + c_j$.

    Attributes:
        query: $q$, with a row for each query.
        key: $k$, with a row for each key.
        query_term: $r$, the terms that depend on the query only.
        key_term: $c$, the terms that depend on the key only.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import Dot
        >>> x = Tokens(jnp.array([[1.0], [2.0]]))
        >>> factors = Dot(jnp.eye(1), jnp.eye(1), 0.5).factors(x, x)
        >>> print(factors.query @ factors.key.T)
        [[2. 4.]
         [4. 8.]]
    """

    query: Float[Array, "m k"]
    key: Float[Array, "n k"]
    query_term: Float[Array, " m"]
    key_term: Float[Array, " n"]


class AbstractQuadraticScore(AbstractScore):
    r"""$s(x,y) = y\cdot(Ax + a) + x\cdot c - \tfrac12(y\cdot By + x\cdot Cx) + e$.

    The matrices `B` and `C` are symmetric. Quadratic scores have closed forms on
    Gaussians. Terms without the key `y` (`c`, `C`, `constant`) cancel in every coupling
    that normalises rows.

    Examples:
        >>> from meanfield.scores import AbstractQuadraticScore, Dot, SquaredDistance
        >>> one = jnp.eye(1)
        >>> [
        ...     (s.A.item(), s.B.item())
        ...     for s in (Dot(one, one), SquaredDistance(one, one))
        ... ]
        [(1.0, 0.0), (2.0, 2.0)]
    """

    @abc.abstractmethod
    def factors(self, queries: Tokens, keys: Tokens) -> Factors:
        """The scores as inner products, with rounding errors as small as possible."""

    def differences(self, queries: Tokens, keys: Tokens) -> Differences | None:
        """Vectors from which differences of scores are computed; `None` by default."""
        del queries, keys

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        factors = self.factors(queries, keys)
        products = jnp.matmul(factors.query, factors.key.T, precision=HIGHEST)
        return products + (factors.query_term[:, None] + factors.key_term[None, :])

    @property
    @abc.abstractmethod
    def A(self) -> Float[Array, "d d"]:
        r"""The matrix $A$ of the bilinear part $y\cdot Ax$ of the score."""

    @property
    @abc.abstractmethod
    def B(self) -> Float[Array, "d d"]:
        r"""The matrix $B$ of the quadratic part $-\tfrac12 y\cdot By$ in the key."""

    @property
    @abc.abstractmethod
    def C(self) -> Float[Array, "d d"]:
        r"""The matrix $C$ of the quadratic part $-\tfrac12 x\cdot Cx$ in the query."""

    @property
    @abc.abstractmethod
    def a(self) -> Float[Array, " d"]:
        r"""The coefficients $a$ of the part $y\cdot a$ that is linear in the key."""

    @property
    @abc.abstractmethod
    def c(self) -> Float[Array, " d"]:
        r"""The coefficients $c$ of the part $x\cdot c$ that is linear in the query."""

    @property
    @abc.abstractmethod
    def constant(self) -> Float[Array, ""]:
        """The constant $e$ in the score."""

    @property
    @abc.abstractmethod
    def bilinear(self) -> "Dot":
        r"""The score $y\cdot Ax$, on which doubly normalised couplings depend."""

    @abc.abstractmethod
    def key_terms(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        r"""The terms $y\cdot a - \tfrac12 y\cdot By$, which depend on the key only."""

    @abc.abstractmethod
    def query_terms(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        r"""The terms $x\cdot c - \tfrac12 x\cdot Cx + e$, which contain no key."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The dimension of the tokens."""


class Dot(AbstractQuadraticScore):
    r"""$s(x, y) = (Qx + q)\cdot(Ky + k)/\epsilon$, so $A = K^\top Q/\epsilon$.

    Args:
        Q: query matrix, which may have any number of rows.
        K: key matrix, of the same shape.
        epsilon: the bandwidth, positive. In transformers it is the square root of the
            number of rows.
        query_bias: $q$, zero if `None`.
        key_bias: $k$, zero if `None`.

    Raises:
        InvalidInputError: if shapes do not match or `epsilon` is not positive.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import Dot
        >>> score = Dot(jnp.eye(2), jnp.eye(2), epsilon=0.5)
        >>> x = Tokens(jnp.array([[1.0, 0.0], [1.0, 1.0]]))
        >>> print(score(x, x))
        [[2. 2.]
         [2. 4.]]
    """

    Q: Float[Array, "k d"]
    K: Float[Array, "k d"]
    epsilon: Float[Array, ""]
    query_bias: Float[Array, " k"]
    key_bias: Float[Array, " k"]

    def __init__(
        self,
        Q: Numbers,
        K: Numbers,
        epsilon: Scalar = 1.0,
        *,
        query_bias: Numbers | None = None,
        key_bias: Numbers | None = None,
    ) -> None:
        self.Q, self.K, self.epsilon = validate_matrices(Q, K, epsilon)
        self.query_bias = validate_bias("query_bias", query_bias, self.Q)
        self.key_bias = validate_bias("key_bias", key_bias, self.K)

    @property
    @override
    def dimension(self) -> int:
        return self.Q.shape[-1]

    @override
    def factors(self, queries: Tokens, keys: Tokens) -> Factors:
        q = jnp.matmul(queries.x, self.Q.T, precision=HIGHEST)
        q = (q + self.query_bias[None, :]) / self.epsilon
        k = jnp.matmul(keys.x, self.K.T, precision=HIGHEST) + self.key_bias[None, :]
        return Factors(q, k, jnp.zeros_like(q[:, 0]), jnp.zeros_like(k[:, 0]))

    @override
    def differences(self, queries: Tokens, keys: Tokens) -> Differences:
        # All matrices act on the query, since its rounding errors are the same for all
        # keys. If matrices acted on the keys, each key would be rounded differently.
        q = jnp.matmul(self.factors(queries, keys).query, self.K, precision=HIGHEST)
        return Differences(q, keys.x)

    @property
    @override
    def A(self) -> Float[Array, "d d"]:
        return jnp.matmul(self.K.T, self.Q, precision=HIGHEST) / self.epsilon

    @property
    @override
    def B(self) -> Float[Array, "d d"]:
        return jnp.zeros_like(self.A)

    @property
    @override
    def C(self) -> Float[Array, "d d"]:
        return self.B

    @property
    @override
    def a(self) -> Float[Array, " d"]:
        return self.K.T @ self.query_bias / self.epsilon

    @property
    @override
    def c(self) -> Float[Array, " d"]:
        return self.Q.T @ self.key_bias / self.epsilon

    @property
    @override
    def constant(self) -> Float[Array, ""]:
        return self.query_bias @ self.key_bias / self.epsilon

    @property
    @override
    def bilinear(self) -> "Dot":
        return Dot(self.Q, self.K, self.epsilon)

    # Products with the zeros of `B` and `C` are left out: XLA's CPU compiler (jaxlib
    # 0.10 to 0.12) fuses `sum(x * (x @ zeros))` into code that reads uninitialised
    # memory.
    @override
    def key_terms(self, y: Float[Array, "n d"]) -> Float[Array, " n"]:
        return y @ self.a

    @override
    def query_terms(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        return x @ self.c + self.constant


def validate_bias(
    name: str, bias: Numbers | None, matrix: Float[Array, "k d"]
) -> Array:
    if bias is None:
        # NumPy creates the zeros, since `jnp.zeros` would compile a program per shape.
        return jax.device_put(np.zeros(matrix.shape[0], matrix.dtype))
    vector = float_array(name, bias)
    if vector.shape != matrix.shape[:1]:
        raise InvalidInputError(
            f"`{name}` must be a vector of {matrix.shape[0]} numbers, one for each row "
            f"of `Q` and `K`; got shape {vector.shape}."
        )
    return vector


def validate_matrices(
    Q: Numbers, K: Numbers, epsilon: Scalar
) -> tuple[Array, Array, Float[Array, ""]]:
    Q, K = float_array("Q", Q), float_array("K", K)
    if Q.ndim != 2 or Q.shape != K.shape:
        raise InvalidInputError(
            "`Q` and `K` must be matrices of the same shape (rows: inner dimension, "
            f"columns: token dimension); got {Q.shape} and {K.shape}."
        )
    bandwidth = jnp.asarray(positive("epsilon", epsilon), Q.dtype)
    if is_concrete(bandwidth) and not _is_positive(np.asarray(bandwidth)):
        raise InvalidInputError(
            f"`epsilon` must be positive and finite; got {epsilon}."
        )
    return Q, K, bandwidth


def _is_positive(values: np.ndarray) -> bool:
    return bool(np.all(values > 0) and np.all(np.isfinite(values)))
