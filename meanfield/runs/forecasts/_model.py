"""Cost of the steps through a trained model, measured for MiniLM on two cores.

With 12 heads and d = 384, a velocity inside the solver's loop took 75 ms for 368 tokens
and about 6 ms for 13 tokens. Texts of these lengths took 235 and 57 steps through 6
layers, at a relative tolerance of 1e-3.
"""

from typing import NamedTuple

import jax.numpy as jnp

from meanfield import models

# Operations per core second in the matrix products of a model. The solver's loop
# computes each head separately, which is nine times slower than one large product.
PRODUCTS = {"float64": 1.2e10, "float32": 2.5e10}
FETCH_BANDWIDTH = 1.5e9  # bytes of a layer's weights that a core loads per second
LAYER = 20  # typical number of steps per layer at a tolerance of 1e-3
REFERENCE_RTOL = 1e-3
RTOL_EXPONENT = 0.1  # measured: a layer took 8 steps at rtol = 1e-3, and 31 at 4e-10
READ_SECONDS = 3.0  # seconds before the first step, to read files and form a covariance

BLOCKS = 3  # cost of a layer with its MLP, in units of its attention


class Network(NamedTuple):
    """The sizes that determine the cost of a model's layer.

    Attributes:
        n_heads: the number of heads that act.
        d: the dimension of the tokens.
        k: the dimension of a head.
    """

    n_heads: int
    d: int
    k: int

    @classmethod
    def from_model(cls, model: str, heads: list[int] | None) -> "Network":
        """The sizes of a model; `heads` is `None` if all its heads act."""
        sizes = models.read(models.load(model)).sizes
        count = sizes.n_heads if heads is None else len(heads)
        return cls(count, sizes.dimension, sizes.head_dimension)

    def seconds(self, n: int, dtype: jnp.dtype) -> float:
        """Core seconds to compute one velocity, without its sums over pairs."""
        products = self.n_heads * n * (2 * self.d**2 + 4 * self.d * self.k)
        numbers = self.n_heads * (self.d**2 + 2 * self.d * self.k)
        weight_bytes = numbers * dtype.itemsize
        return products / PRODUCTS[dtype.name] + weight_bytes / FETCH_BANDWIDTH


def steps_of_model(layers: int, rtol: float) -> float:
    """A typical number of solver steps for the flow through `layers` layers."""
    return LAYER * layers * (REFERENCE_RTOL / rtol) ** RTOL_EXPONENT
