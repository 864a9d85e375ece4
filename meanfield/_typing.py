"""Type aliases."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key

Numbers = ArrayLike | Sequence  # user input; `float_array` converts it to an array
Scalar = float | int | Float[Array, ""]
Time = float | int | Float[Array, ""] | Int[Array, ""]
SolverTime = bool | int | float | Array | np.ndarray  # diffrax's type for times
PRNGKey = Key[Array, ""]
Device = Any  # a `jax.Device`, which type checkers cannot resolve
