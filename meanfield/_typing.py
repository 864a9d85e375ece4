"""Aliases shared by annotations."""

from jaxtyping import Array, Float, Int

Time = float | int | Float[Array, ""] | Int[Array, ""]
