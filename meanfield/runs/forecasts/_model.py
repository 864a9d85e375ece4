"""What steps of a trained model take, as they were measured of MiniLM on two cores.

A velocity of 368 tokens, 12 heads and d = 384 took 75 ms inside the solver's loop, one
of 13 tokens some 6; texts of these lengths took 235 and 57 steps through 6 layers, to a
relative error of 1e-3.
"""

from meanfield import models
from meanfield.runs.building._precision import dtype_of
from meanfield.spec import RunSpec

# Operations of one core a second: heads come one after another in the solver's loop,
# where products of their size are a ninth as fast as large ones alone.
PRODUCTS = {"float64": 1.2e10, "float32": 2.5e10}
FETCHED = 1.5e9  # bytes a second and core, of the weights of the layer that acts
LAYER = 20  # steps of a layer to 1e-3, which grow as the states do
LOOSE = 1e-3
MORE = 0.1  # a power of the tolerance: 8 steps of a layer to 1e-3 were 31 to 4e-10
READING = 3.0  # seconds until the first step, of files and of a large covariance

BLOCKS = 3  # what a whole layer multiplies, MLP included, for what its attention does


def heads_of_model(spec: RunSpec) -> int:
    """How many heads of a layer act."""
    count = models.read(models.load(str(spec.model))).sizes.n_heads
    return count if spec.model_heads is None else len(spec.model_heads)


def seconds_of_matrices(spec: RunSpec, n: int) -> float:
    """Seconds of one core for what a velocity multiplies, its sums over pairs apart."""
    sizes = models.read(models.load(str(spec.model))).sizes
    dtype, d, k = dtype_of(spec), sizes.dimension, sizes.head_dimension
    heads = heads_of_model(spec)
    products = heads * n * (2 * d**2 + 4 * d * k)
    fetched = heads * (d**2 + 2 * d * k) * dtype.itemsize
    return products / PRODUCTS[dtype.name] + fetched / FETCHED


def steps_of_model(layers: int, rtol: float) -> float:
    """A typical number of steps through so many layers."""
    return LAYER * layers * (LOOSE / rtol) ** MORE
