"""Tokens in a sequence, as networks look at them, and their places as waves."""

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


LONGEST = 1e4  # the longest wave, in units of 2π places


def sinusoids(n: int, d: int) -> Float[Array, "n d"]:
    r"""$\sin(t\omega_i)$ and $\cos(t\omega_i)$ at places $t = 0, …, n - 1$.

    With $\omega_i = 10^{-4i/(d/2 - 1)}$ for $i < d/2$, sines in the first half of the
    coordinates and cosines in the second. Source: Vaswani et al., 2017, section 3.5,
    where they take turns.

    Args:
        n: how many places.
        d: the dimension of tokens, even.

    Examples:
        >>> from meanfield.training import sinusoids
        >>> print(sinusoids(3, 2))  # one wave, of length 2π
        [[ 0.      1.    ]
         [ 0.8415  0.5403]
         [ 0.9093 -0.4161]]
    """
    waves = d // 2
    frequencies = LONGEST ** (-np.arange(waves) / max(waves - 1, 1))
    angles = np.arange(n)[:, None] * frequencies[None, :]
    values = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return jnp.asarray(values, jnp.float32)
