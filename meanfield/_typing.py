"""Aliases shared by annotations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key

Numbers = ArrayLike | Sequence  # from outside; `float_array` makes them an array
Scalar = float | int | Float[Array, ""]
Time = float | int | Float[Array, ""] | Int[Array, ""]
SolverTime = bool | int | float | Array | np.ndarray  # what diffrax hands around
PRNGKey = Key[Array, ""]
Device = Any  # a `jax.Device`, which type checkers do not know
