r"""Matrix functions without inverses, with derivatives that exist where they do.

Covariances come as factors, $\Sigma = YY^\top$ with $Y$ of any rank. Nothing here
knows of tokens.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

HIGHEST = jax.lax.Precision.HIGHEST


def length(x: Float[Array, "..."]) -> Float[Array, ""]:
    """The Euclidean norm over all entries, which overflows only where an entry does."""
    largest = jnp.max(jnp.abs(x), initial=0)
    usable = (largest > 0) & jnp.isfinite(largest)
    scaled = x / jnp.where(usable, largest, 1)
    return jnp.where(usable, largest * jnp.sqrt(jnp.sum(scaled**2)), largest)


def tilt(
    factor: Float[Array, "d r"], B: Float[Array, "d d"], rhs: Float[Array, "d ..."]
) -> Float[Array, "d ..."]:
    r"""$(\Sigma^{-1} + B)^{-1} u = Y (I + Y^\top B Y)^{-1} Y^\top u$, for any rank.

    `B` must be symmetric with $I + Y^\top B Y \succ 0$; otherwise the tilted Gaussian
    has no mass and the result is NaN, as where it overflows.
    """
    r = factor.shape[1]
    gram = jnp.eye(r, dtype=factor.dtype) + factor.T @ B @ factor
    inner = jax.scipy.linalg.solve(gram, factor.T @ rhs, assume_a="pos")
    # An overflow would pass for an infinitely concentrated tilt, and a result of zero.
    return factor @ jnp.where(jnp.all(jnp.isfinite(gram)), inner, jnp.nan)


def sylvester(R: Float[Array, "r r"], C: Float[Array, "r r"]) -> Float[Array, "r r"]:
    """The $X$ with $RX + XR = C$, for symmetric positive definite $R$.

    Derivatives of any order, in any mode, solve the same equation again: none reaches
    the eigenvectors, which have none where eigenvalues repeat.
    """
    values, U = jnp.linalg.eigh(jax.lax.stop_gradient(R))

    def solve(_: object, rhs: Array) -> Array:
        return U @ ((U.T @ rhs @ U) / (values[:, None] + values[None, :])) @ U.T

    equation = lambda X: R @ X + X @ R
    return jax.lax.custom_linear_solve(equation, C, solve, symmetric=True)


@jax.custom_jvp
def psd_sqrt(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    r"""The symmetric square root of a positive semidefinite matrix.

    Smooth at repeated eigenvalues, unlike the derivative of an eigendecomposition.
    At a singular `S` the square root has no derivative and the result is not finite.
    """
    values, U = jnp.linalg.eigh(S)
    return (U * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ U.T


@psd_sqrt.defjvp
def _psd_sqrt_jvp(primals: tuple, tangents: tuple) -> tuple:
    root = psd_sqrt(*primals)
    return root, sylvester(root, *tangents)


@jax.custom_jvp
def sqrt_one_plus_four(M: Float[Array, "r r"]) -> Float[Array, "r r"]:
    r"""$(I + 4 M M^\top)^{1/2}$ from the singular values of `M`.

    Never forms $MM^\top$, so small singular values keep their digits. Differentiable
    to any order, at repeated and at zero singular values too.
    """
    U, sigma, _ = jnp.linalg.svd(M)
    return (U * jnp.sqrt(1 + 4 * sigma**2)[None, :]) @ U.T


@sqrt_one_plus_four.defjvp
def _sqrt_one_plus_four_jvp(primals: tuple, tangents: tuple) -> tuple:
    (M,), (dM,) = primals, tangents
    root = sqrt_one_plus_four(M)
    half = dM @ M.T
    return root, sylvester(root, 4 * (half + half.T))


def entropic_shrinkage(M: Float[Array, "r r"]) -> Float[Array, "r r"]:
    r"""$U \mathrm{diag}(1/h) U^\top$ for $M = U \mathrm{diag}(\sigma) W^\top$.

    With $h = (1 + \sqrt{1 + 4\sigma^2})/2$: by how much entropic transport between
    Gaussians shrinks each principal direction of the scores.
    """
    identity = jnp.eye(M.shape[0], dtype=M.dtype)
    root = sqrt_one_plus_four(M)
    return jax.scipy.linalg.solve(identity + root, 2 * identity, assume_a="pos")
