r"""Isotropic diffusion: $\partial_t\mu + \nabla\cdot(\mu\, v[\mu]) = \kappa\Delta\mu$.

Apart from the representation itself, nothing is approximated in space or in law:
tokens follow Brownian paths, the factor of a Gaussian has a noise rate, and a
density on a grid takes half a step of the heat flow before and after each step.
"""

from types import NoneType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import float_array, is_concrete, require
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError


class Isotropic(eqx.Module):
    r"""Isotropic noise $\kappa\Delta\mu$, of the same strength in all directions.

    Attributes:
        kappa: the diffusivity $\kappa$, a squared length per time: the displacement of
            a free token has standard deviation $\sqrt{2\kappa t}$ along each axis.

    Examples:
        >>> from meanfield import Drift, Gaussian, Isotropic, flow
        >>> still, one = Drift(jnp.zeros((1, 1))), jnp.eye(1)
        >>> run = flow(
        ...     still, Gaussian(jnp.zeros(1), one), [0.0, 1.0], noise=Isotropic(0.5)
        ... )
        >>> print(run.final.covariance)  # 1 + 2κt
        [[2.]]
    """

    kappa: Float[Array, ""]

    def __init__(self, kappa: Numbers) -> None:
        """Checks that `kappa` is a single finite number and not negative."""
        value = float_array("kappa", kappa)
        if value.ndim != 0 or (is_concrete(value) and not float(value) >= 0):
            raise InvalidInputError(
                "`kappa` must be a single non-negative number; got "
                f"{np.asarray(value).tolist()}."
            )
        self.kappa = value

    @property
    def is_zero(self) -> bool:
        """Whether `kappa` is known to be zero, so that the flow has no noise."""
        return is_concrete(self.kappa) and float(self.kappa) == 0


Noise = Isotropic | None


def active_noise(noise: Noise) -> Noise:
    """The noise, or `None` if it is zero.

    Raises:
        InvalidInputError: if `noise` is neither `Isotropic` nor `None`.
    """
    require("`noise` must be `Isotropic(kappa)`", noise, (Isotropic, NoneType))
    return None if noise is None or noise.is_zero else noise


def cast_noise(noise: Noise, dtype: jnp.dtype) -> Noise:
    """The noise in the dtype of the coordinates that it moves."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), noise)
