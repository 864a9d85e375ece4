"""Sequences of tokens as measures, and sinusoidal position encodings."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.measures import Dense, Points
from meanfield.tokens import Tokens


def sequence_measure(x: Float[Array, "n d"]) -> Points:
    """Tokens of equal weight at positions 1/n, 2/n, …, 1, with dense sums."""
    n = x.shape[0]
    places = jnp.asarray(np.arange(1, n + 1) / n, x.dtype)
    logs = jnp.full(n, -np.log(n), x.dtype)
    return Points(Tokens(x, places), logs, Dense())


LONGEST = 1e4  # longest wavelength, in units of 2π positions


def sinusoids(n: int, d: int) -> Float[Array, "n d"]:
    r"""Position encodings $\sin(t\omega_i)$, $\cos(t\omega_i)$ for $t = 0, …, n - 1$.

    The frequencies are $\omega_i = 10^{-4i/(d/2 - 1)}$ for $i < d/2$. Sines are in the
    first half of the coordinates and cosines in the second. Source: Vaswani et al.,
    2017, section 3.5, where sines and cosines alternate.

    Args:
        n: number of positions.
        d: dimension of the tokens, even.

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
