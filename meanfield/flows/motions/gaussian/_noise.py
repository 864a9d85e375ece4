r"""Noise on a Gaussian: exact, and carried by the factor.

With $Y' = LY + \kappa Y^{-\top}$ the covariance $\Sigma = YY^\top$ moves by
$Y'Y^\top + YY'^\top = L\Sigma + \Sigma L^\top + \kappa(Y^{-\top}Y^\top + YY^{-1})$,
which is $L\Sigma + \Sigma L^\top + 2\kappa I$. No covariance is formed, none can cease
to be positive: the noise pushes singular values off zero, $\sigma' = \kappa/\sigma$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield.linalg import psd_sqrt
from meanfield.measures import Gaussian


def widening(
    factor: Float[Array, "d d"], kappa: Float[Array, ""]
) -> Float[Array, "d d"]:
    r"""$\kappa Y^{-\top}$, for a factor of full rank."""
    return kappa * jnp.linalg.solve(
        factor.T, jnp.eye(*factor.shape, dtype=factor.dtype)
    )


def squared(mu: Gaussian, diffused: Float[Array, ""]) -> Gaussian:
    r"""The same Gaussian with a square factor of full rank.

    A factor that is square and of full rank stays. Any other, a Dirac's included,
    becomes $(YY^\top + \eta I)^{1/2}$: a factor that leaves a singular start grows
    like $\sqrt{2\kappa t}$, with no derivative there. $\eta$ is the rounding unit
    of the covariance that the flow has, or reaches by its noise, which adds
    `diffused`, $\kappa$ times the span, to half of each variance: what is raised stays
    below what rounding adds. Factors may lead with axes of an ensemble.
    """
    Y = mu.factor
    square = Y.shape[-1] == Y.shape[-2]
    Sigma = jnp.matmul(Y, jnp.swapaxes(Y, -1, -2))
    d = Y.shape[-2]
    variance = jnp.trace(Sigma, axis1=-2, axis2=-1) / d + 2 * diffused
    eta = jax.lax.stop_gradient(jnp.finfo(Y.dtype).eps * variance)
    if square and not (is_concrete(Y) and is_concrete(eta)):
        return mu  # under a trace nobody can look
    if square:
        least = np.linalg.svd(np.asarray(Y), compute_uv=False)[..., -1]
        if np.all(least**2 > np.asarray(eta)):
            return mu
    raise_one = lambda S, e: psd_sqrt(S + e * jnp.eye(d, dtype=Y.dtype))
    root = jnp.vectorize(raise_one, signature="(d,d),()->(d,d)")(Sigma, eta)
    return eqx.tree_at(lambda g: g.factor, mu, root)
