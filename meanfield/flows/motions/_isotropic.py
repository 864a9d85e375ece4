r"""Diffusion: $\partial_t\mu + \nabla\cdot(\mu\, v[\mu]) = \kappa\Delta\mu$.

Each representation has its own way of it, none approximate in space or law beyond what
the representation is: tokens follow Brownian paths, a Gaussian's factor is driven, and
a density on a grid takes half a step of the heat flow on either side of each step.
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
    r"""Noise of the same strength in all directions, $\kappa\Delta\mu$.

    Attributes:
        kappa: the diffusivity $\kappa$, a squared length per time: a free token moves
            by $\sqrt{2\kappa t}$ along each axis.

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
        """Checks that `kappa` is a number, finite and not negative."""
        value = float_array("kappa", kappa)
        if value.ndim != 0 or (is_concrete(value) and not float(value) >= 0):
            raise InvalidInputError(
                "`kappa` must be a diffusivity: one number, zero or more; got "
                f"{np.asarray(value).tolist()}."
            )
        self.kappa = value

    @property
    def absent(self) -> bool:
        """Whether it is known to be zero: the flow is then the one without noise."""
        return is_concrete(self.kappa) and float(self.kappa) == 0


Noise = Isotropic | None


def present(noise: Noise) -> Noise:
    """The noise, if there is any.

    Raises:
        InvalidInputError: if it is another thing.
    """
    require("`noise` is `Isotropic(kappa)`", noise, (Isotropic, NoneType))
    return None if noise is None or noise.absent else noise


def typed(noise: Noise, dtype: jnp.dtype) -> Noise:
    """The same noise, in the floating-point format of what it moves."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), noise)
