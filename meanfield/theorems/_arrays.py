"""NumPy, JAX and Equinox by their usual names, and the types of arrays and draws."""

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
    """What rows have in each place, stacked."""
    return tuple(np.stack(parts) for parts in zip(*rows, strict=True))
