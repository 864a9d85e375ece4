"""What steps of a trained model take, as they were measured of MiniLM on two cores.

A velocity of 368 tokens, 12 heads and d = 384 took 75 ms inside the solver's loop, one
of 13 tokens some 6; texts of these lengths took 235 and 57 steps through 6 layers, to a
relative error of 1e-3.
"""

from typing import NamedTuple

import jax.numpy as jnp

from meanfield import models

# Operations of one core a second: heads come one after another in the solver's loop,
# where products of their size are a ninth as fast as large ones alone.
PRODUCTS = {"float64": 1.2e10, "float32": 2.5e10}
FETCHED = 1.5e9  # bytes a second and core, of the weights of the layer that acts
LAYER = 20  # steps of a layer to 1e-3, which grow as the states do
LOOSE = 1e-3
MORE = 0.1  # a power of the tolerance: 8 steps of a layer to 1e-3 were 31 to 4e-10
READING = 3.0  # seconds until the first step, of files and of a large covariance

BLOCKS = 3  # what a whole layer multiplies, MLP included, for what its attention does


class Network(NamedTuple):
    """A layer of a model, of which some heads act.

    Attributes:
        n_heads: that act.
        d: the dimension of its tokens.
        k: that of a head.
    """

    n_heads: int
    d: int
    k: int

    @classmethod
    def of(cls, model: str, heads: list[int] | None) -> "Network":
        """A model by its name; `None` of the heads are all."""
        sizes = models.read(models.load(model)).sizes
        count = sizes.n_heads if heads is None else len(heads)
        return cls(count, sizes.dimension, sizes.head_dimension)

    def seconds(self, n: int, dtype: jnp.dtype) -> float:
        """Seconds of one core for what a velocity multiplies, sums over pairs apart."""
        products = self.n_heads * n * (2 * self.d**2 + 4 * self.d * self.k)
        numbers = self.n_heads * (self.d**2 + 2 * self.d * self.k)
        fetched = numbers * dtype.itemsize
        return products / PRODUCTS[dtype.name] + fetched / FETCHED


def steps_of_model(layers: int, rtol: float) -> float:
    """A typical number of steps through so many layers."""
    return LAYER * layers * (LOOSE / rtol) ** MORE
