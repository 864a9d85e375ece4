"""NumPy, JAX and Equinox by their usual names, and the types of arrays and draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array as JaxArray

Array = np.ndarray
Rng = np.random.Generator

__all__ = ["Array", "JaxArray", "Rng", "eqx", "jax", "jnp", "np"]
