"""Directions of slices, onto which queries and keys are projected."""

import jax
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import float_array
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError

MAX_SLICES = 10_000  # a limit, since each slice sorts all tokens

_GRAMMAR = (
    "`slices` must be `axis`, `random:COUNT[:SEED]` or COUNT alone, with COUNT from 1 "
    f"to {MAX_SLICES}, or rows of numbers"
)


def directions(slices: str | int | Numbers, k: int) -> Float[Array, "l k"]:
    """Unit vectors in the space of queries and keys.

    Args:
        slices: `axis` for the coordinate axes, `random:COUNT[:SEED]` or COUNT alone for
            uniform random directions, or a matrix with a direction in each row.
        k: the dimension of queries and keys.

    Raises:
        InvalidInputError: if `slices` is none of these, or has the wrong shape.
    """
    if isinstance(slices, str):
        return jax.device_put(np.eye(k) if slices == "axis" else _random(slices, k))
    if np.ndim(slices) == 0:
        return jax.device_put(_random(f"random:{slices}", k))
    rows = np.asarray(float_array("slices", slices))
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    if rows.ndim != 2 or rows.shape[1] != k or not np.all(lengths > 0):
        raise InvalidInputError(
            f"`slices` must be a matrix of nonzero rows with {k} columns, one column "
            f"for each row of `Q` and `K`; got shape {rows.shape}."
        )
    return jax.device_put(rows / lengths)


def _random(text: str, k: int) -> np.ndarray:
    """Uniform directions on the sphere; a larger COUNT only appends directions."""
    kind, *numbers = text.split(":")
    try:
        count, *seed = map(int, numbers)
    except ValueError:
        count, seed = 0, []
    is_valid = kind == "random" and len(seed) <= 1 and min(seed, default=0) >= 0
    if not (is_valid and 1 <= count <= MAX_SLICES):
        raise InvalidInputError(f"{_GRAMMAR}; got `{text}`.")
    rng = np.random.default_rng(seed[0] if seed else 0)
    rows = rng.normal(size=(count, k))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
