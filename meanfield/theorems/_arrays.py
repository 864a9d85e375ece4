"""Short names of NumPy, JAX and Equinox, and types of arrays and functions."""

from collections.abc import Callable, Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array as JaxArray

Array = np.ndarray
Rng = np.random.Generator
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]

__all__ = [
    "Array",
    "Binary",
    "JaxArray",
    "Rng",
    "Unary",
    "columns",
    "eqx",
    "jax",
    "jnp",
    "np",
]


def columns(rows: Iterable[Iterable]) -> tuple[Array, ...]:
    """Stacks the rows and returns one array for each column."""
    return tuple(np.stack(parts) for parts in zip(*rows, strict=True))
