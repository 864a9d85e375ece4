r"""Noise on a Gaussian: an exact rate of change of its factor.

With $Y' = LY + \kappa Y^{-\top}$ the covariance $\Sigma = YY^\top$ changes at the rate
$Y'Y^\top + YY'^\top = L\Sigma + \Sigma L^\top + \kappa(Y^{-\top}Y^\top + YY^{-1})$,
which is $L\Sigma + \Sigma L^\top + 2\kappa I$. No covariance is computed, so none can
lose its positivity. Noise pushes singular values away from zero,
$\sigma' = \kappa/\sigma$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield.linalg import psd_sqrt, solve
from meanfield.measures import Gaussian


def factor_noise_rate(
    factor: Float[Array, "d d"], kappa: Float[Array, ""]
) -> Float[Array, "d d"]:
    r"""The noise rate $\kappa Y^{-\top}$ of a factor of full rank."""
    return kappa * solve(factor.T, jnp.eye(*factor.shape, dtype=factor.dtype))


def square_factor(mu: Gaussian, diffusion: Float[Array, ""]) -> Gaussian:
    r"""The Gaussian with a square factor of full rank.

    A square factor of full rank is unchanged. Any other factor, such as that of a
    Dirac, becomes $(YY^\top + \eta I)^{1/2}$, because a singular factor would grow like
    $\sqrt{2\kappa t}$, which has no derivative at 0. Here $\eta$ is the rounding unit
    times $\mathrm{tr}(\Sigma)/d + 2\,\mathtt{diffusion}$, where `diffusion` is $\kappa$
    times the duration. So the change is below rounding. Factors may have the leading
    axes of an ensemble.
    """
    Y = mu.factor
    is_square = Y.shape[-1] == Y.shape[-2]
    Sigma = jnp.matmul(Y, jnp.swapaxes(Y, -1, -2))
    d = Y.shape[-2]
    variance = jnp.trace(Sigma, axis1=-2, axis2=-1) / d + 2 * diffusion
    eta = jax.lax.stop_gradient(jnp.finfo(Y.dtype).eps * variance)
    if is_square and not (is_concrete(Y) and is_concrete(eta)):
        return mu  # the rank of a traced factor is not known
    if is_square:
        least = np.linalg.svd(np.asarray(Y), compute_uv=False)[..., -1]
        if np.all(least**2 > np.asarray(eta)):
            return mu
    matrix_root = lambda S, e: psd_sqrt(S + e * jnp.eye(d, dtype=Y.dtype))
    root = jnp.vectorize(matrix_root, signature="(d,d),()->(d,d)")(Sigma, eta)
    return eqx.tree_at(lambda g: g.factor, mu, root)
