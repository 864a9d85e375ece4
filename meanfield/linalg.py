r"""Matrix functions without inverses, differentiable wherever a derivative exists.

Covariances are given by factors, $\Sigma = YY^\top$ with $Y$ of any rank. This module
does not depend on tokens or measures.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._programs import compile_once

from . import _lapack
from ._derivatives import custom_derivative

HIGHEST = jax.lax.Precision.HIGHEST
MAX_UNROLL_SIZE = 4  # up to this size, calling LAPACK costs more than the arithmetic


def solve_positive(
    G: Float[Array, "r r"], rhs: Float[Array, "r ..."]
) -> Float[Array, "r ..."]:
    r"""$G^{-1} u$ for symmetric positive definite $G$; NaN for any other $G$.

    Small systems use unrolled elimination, which XLA fuses with the surrounding code
    and vectorises under `vmap`. Positive definite matrices need no pivoting (Higham,
    Accuracy and Stability, section 10.1).

    Examples:
        >>> from meanfield.linalg import solve_positive
        >>> G = jnp.array([[2.0, 1.0], [1.0, 2.0]])
        >>> print(solve_positive(G, jnp.array([3.0, 3.0])))
        [1. 1.]
    """
    r = G.shape[0]
    if not 0 < r <= MAX_UNROLL_SIZE:
        constant = jax.lax.stop_gradient(G)
        return jax.lax.custom_linear_solve(
            lambda u: jnp.matmul(G, u, precision=HIGHEST),
            rhs,
            lambda _, u: _lapack.solve_positive(constant, u),
            symmetric=True,
        )
    rows, right = list(G), list(rhs)
    for k in range(r):
        pivot = jnp.where(rows[k][k] > 0, rows[k][k], jnp.nan)
        for i in range(k + 1, r):
            share = rows[i][k] / pivot
            rows[i] = rows[i] - share * rows[k]
            right[i] = right[i] - share * right[k]
    for k in reversed(range(r)):
        for i in range(k + 1, r):
            right[k] = right[k] - rows[k][i] * right[i]
        right[k] = right[k] / jnp.where(rows[k][k] > 0, rows[k][k], jnp.nan)
    return jnp.stack(right)


def solve(M: Float[Array, "r r"], rhs: Float[Array, "r ..."]) -> Float[Array, "r ..."]:
    """$M^{-1} u$ for a square matrix $M$; entries are not finite if $M$ is singular.

    Inside `vmap`, batches are solved in chunks; see `limit_batches`.

    Examples:
        >>> from meanfield.linalg import solve
        >>> print(solve(jnp.array([[0.0, 1.0], [2.0, 0.0]]), jnp.array([3.0, 4.0])))
        [2. 3.]
    """
    constant = jax.lax.stop_gradient(M)
    return jax.lax.custom_linear_solve(
        lambda u: jnp.matmul(M, u, precision=HIGHEST),
        rhs,
        lambda _, u: _lapack.solve(constant, u),
        lambda _, u: _lapack.solve(constant.T, u),
    )


def product(a: Float[Array, "m k"], b: Float[Array, "k ..."]) -> Float[Array, "m ..."]:
    """`a @ b`; small products are unrolled, so that XLA fuses and vectorises them.

    Examples:
        >>> from meanfield.linalg import product
        >>> print(product(jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.array([3.0, 4.0])))
        [4. 3.]
    """
    if not 0 < max(*a.shape, *b.shape) <= MAX_UNROLL_SIZE:
        return jnp.matmul(a, b, precision=HIGHEST)
    if b.ndim == 1:
        return product(a, b[:, None])[:, 0]
    terms = [a[:, k, None] * b[None, k] for k in range(a.shape[1])]
    return sum(terms[1:], terms[0])


@compile_once
def length(x: Float[Array, "..."]) -> Float[Array, ""]:
    """Euclidean norm over all entries, without overflow of the squares.

    Examples:
        >>> from meanfield.linalg import length
        >>> print(length(jnp.array([3e200, 4e200])) / 1e200)  # no square overflows
        5.0
    """
    # The largest modulus cancels in the norm, so its derivative is not needed.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), initial=0))
    usable = (largest > 0) & jnp.isfinite(largest)
    ratios = x / jnp.where(usable, largest, 1)
    return jnp.where(usable, largest * jnp.sqrt(jnp.sum(ratios**2)), largest)


def tilt(
    factor: Float[Array, "d r"],
    B: Float[Array, "d d"] | None,
    rhs: Float[Array, "d ..."],
) -> Float[Array, "d ..."]:
    r"""$(\Sigma^{-1} + B)^{-1} u = Y (I + Y^\top B Y)^{-1} Y^\top u$, for any rank.

    `B` must be symmetric with $I + Y^\top B Y \succ 0$; otherwise the tilted Gaussian
    cannot be normalised and the result is NaN. An overflow gives NaN, too. `None`
    stands for $B = 0$.

    Examples:
        >>> from meanfield.linalg import tilt
        >>> Y = jnp.array([[1.0], [0.0]])  # a covariance of rank one has no inverse
        >>> print(tilt(Y, jnp.eye(2), jnp.array([4.0, 4.0])))
        [2. 0.]
    """
    if B is None:
        return product(factor, product(factor.T, rhs))
    r = factor.shape[1]
    gram = product(product(factor.T, B), factor)
    gram = gram + jnp.eye(r, dtype=factor.dtype)
    inner = solve_positive(gram, product(factor.T, rhs))
    # Without this check, an overflow of `gram` would give a result of zero.
    return product(factor, jnp.where(jnp.all(jnp.isfinite(gram)), inner, jnp.nan))


def eigh(S: Float[Array, "r r"]) -> tuple[Float[Array, " r"], Float[Array, "r r"]]:
    """Eigenvalues in ascending order and eigenvectors of a symmetric matrix.

    A 2 × 2 matrix is diagonalised by one rotation. Do not differentiate the result.

    Examples:
        >>> from meanfield.linalg import eigh
        >>> values, vectors = eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> print(values)
        [1. 3.]
    """
    if S.shape[0] != 2:
        return _lapack.eigh(S)
    centre, half, offdiag = (S[0, 0] + S[1, 1]) / 2, (S[0, 0] - S[1, 1]) / 2, S[1, 0]
    radius, angle = jnp.hypot(half, offdiag), jnp.arctan2(offdiag, half) / 2
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    vectors = jnp.array([[-sin, cos], [cos, sin]])
    return jnp.stack([centre - radius, centre + radius]), vectors


def is_positive_definite(S: Float[Array, "d d"]) -> Bool[Array, ""]:
    """Whether a symmetric matrix has eigenvalues that are positive beyond rounding.

    Examples:
        >>> from meanfield.linalg import is_positive_definite
        >>> print(*map(is_positive_definite, (jnp.eye(2), jnp.ones((2, 2)))))
        True False
    """
    values = _lapack.eigvalsh(jax.lax.stop_gradient(S))
    return values[0] > S.shape[0] * jnp.finfo(S.dtype).eps * values[-1]


def sylvester(R: Float[Array, "r r"], C: Float[Array, "r r"]) -> Float[Array, "r r"]:
    """The solution $X$ of $RX + XR = C$ for symmetric positive definite $R$.

    Derivatives, of any order and in both modes, solve such an equation again. They
    never differentiate the eigenvectors, which are not smooth at repeated eigenvalues.

    Examples:
        >>> from meanfield.linalg import sylvester
        >>> R, C = jnp.diag(jnp.array([1.0, 2.0])), jnp.ones((2, 2))
        >>> X = sylvester(R, C)
        >>> print(jnp.allclose(R @ X + X @ R, C))
        True
    """
    values, U = _lapack.eigh(jax.lax.stop_gradient(R))

    def solve(_: object, rhs: Array) -> Array:
        return U @ ((U.T @ rhs @ U) / (values[:, None] + values[None, :])) @ U.T

    equation = lambda X: R @ X + X @ R
    return jax.lax.custom_linear_solve(equation, C, solve, symmetric=True)


def _psd_sqrt_rule(root: Array, _: tuple, tangents: tuple) -> Array:
    return sylvester(root, *tangents)


@custom_derivative(_psd_sqrt_rule)
def psd_sqrt(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""Symmetric square root of a positive semidefinite matrix.

    It is differentiable at repeated eigenvalues, unlike an eigendecomposition. At a
    singular `S` it has no derivative, and the computed derivative is not finite.

    Examples:
        >>> from meanfield.linalg import psd_sqrt
        >>> print(psd_sqrt(jnp.diag(jnp.array([4.0, 9.0]))))
        [[2. 0.]
         [0. 3.]]
    """
    values, U = _lapack.eigh(S)
    return (U * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ U.T


def _sqrt_one_plus_four_rule(root: Array, primals: tuple, tangents: tuple) -> Array:
    half = tangents[0] @ primals[0].T
    return sylvester(root, 4 * (half + half.T))


@custom_derivative(_sqrt_one_plus_four_rule)
def sqrt_one_plus_four(M: Float[Array, "r r"]) -> Float[Array, "r r"]:
    r"""$S^{1/2}$ for $S = I + 4 M M^\top$, accurate relative to its largest entry.

    It is computed from the singular values of `M`, or for 2 × 2 matrices as
    $(S + \delta I)/\sqrt{\mathrm{tr}\,S + 2\delta}$ with $\delta = \sqrt{\det S}$
    (Cayley–Hamilton). It is differentiable to any order, also at repeated or zero
    singular values.

    Examples:
        >>> from meanfield.linalg import sqrt_one_plus_four
        >>> M = jnp.diag(jnp.array([0.0, jnp.sqrt(2.0)]))
        >>> print(sqrt_one_plus_four(M))  # √1 and √9
        [[1. 0.]
         [0. 3.]]
    """
    if M.shape[0] == 2:
        scale = jnp.maximum(1, jnp.max(jnp.abs(M)))  # otherwise squares may overflow
        N, unit = M / scale, 1 / scale
        size, det = jnp.sum(N**2), N[0, 0] * N[1, 1] - N[0, 1] * N[1, 0]
        root_det = jnp.hypot(unit * jnp.sqrt(unit**2 + 4 * size), 4 * det)
        S = jnp.eye(2, dtype=M.dtype) * (unit**2 + root_det) + 4 * N @ N.T
        return scale * (S / jnp.sqrt(2 * unit**2 + 4 * size + 2 * root_det))
    U, sigma, _ = _lapack.svd(M)
    return (U * jnp.hypot(1, 2 * sigma)[None, :]) @ U.T


def entropic_shrinkage(M: Float[Array, "r r"]) -> Float[Array, "r r"]:
    r"""$U \mathrm{diag}(1/h) U^\top$ for $M = U \mathrm{diag}(\sigma) W^\top$.

    Here $h = (1 + \sqrt{1 + 4\sigma^2})/2$ is the factor by which entropic transport
    between Gaussians shrinks each principal direction of the scores.

    Examples:
        >>> from meanfield.linalg import entropic_shrinkage
        >>> M = jnp.diag(jnp.array([0.0, jnp.sqrt(2.0)]))
        >>> print(entropic_shrinkage(M))  # 1/1 and 1/2
        [[1.  0. ]
         [0.  0.5]]
    """
    identity = jnp.eye(M.shape[0], dtype=M.dtype)
    root = sqrt_one_plus_four(M)
    return solve_positive(identity + root, 2 * identity)
