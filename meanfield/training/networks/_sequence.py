"""Tokens in a sequence, as networks look at them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.measures import Dense, Points
from meanfield.tokens import Tokens


def in_sequence(x: Float[Array, "n d"]) -> Points:
    """Tokens of equal weight at 1/n, 2/n, …, 1, summed all at once."""
    n = x.shape[0]
    places = jnp.asarray(np.arange(1, n + 1) / n, x.dtype)
    logs = jnp.full(n, -np.log(n), x.dtype)
    return Points(Tokens(x, places), logs, Dense())
