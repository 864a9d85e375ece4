"""An initial law: independent logistic coordinates, as tokens and as a density."""

import jax
import numpy as np
from jaxtyping import Array, Float

from meanfield.measures.laws import Law, laws
from meanfield.measures.sampling import clouds

REACH = 20.0  # standard deviations, beyond which a mass of 2e-16 lies


@clouds.register("logistic")
def logistic(n: int, d: int, *, key: Array) -> Float[Array, "n d"]:
    """Tokens with independent logistic coordinates."""
    return jax.random.logistic(key, (n, d))


@laws.register("logistic")
def law(d: int, *, key: Array) -> Law:
    r"""The density $\prod_k \tfrac14\cosh^{-2}(x_k/2)$, of variance $\pi^2/3$."""
    del key
    density = lambda x: np.prod(np.cosh(x / 2) ** -2.0 / 4, axis=1)
    return Law(density, np.zeros(d), np.pi**2 / 3 * np.eye(d), REACH)
