"""Levenshtein distance of sequences."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def edit_distance(
    first: Int[Array, " m"],
    second: Int[Array, " n"],
    lengths: tuple[Int[Array, ""], Int[Array, ""]],
) -> Float[Array, ""]:
    r"""Levenshtein distance: fewest insertions, deletions and substitutions.

    The table is computed row by row: $D_{ij} = \min(D_{i-1,j} + 1, D_{i-1,j-1} + [a_i
    \neq b_j], D_{i,j-1} + 1)$. With $E_{ij}$ the minimum of the first two terms, the
    row is a running minimum, $D_{ij} = j + \min_{k \leq j}(E_{ik} - k)$.

    Args:
        first: symbols of one sequence; those after its length are ignored.
        second: symbols of the other sequence, likewise.
        lengths: lengths of both sequences.

    Examples:
        >>> from meanfield.training.tasks import edit_distance
        >>> first, second = jnp.array([1, 2, 3, 9]), jnp.array([2, 3, 3])
        >>> print(edit_distance(first, second, (jnp.array(3), jnp.array(3))))
        2.0
    """
    columns = jnp.arange(second.shape[0] + 1)

    def row(upper_row: Array, symbol: Array) -> tuple[Array, Array]:
        substitutions = upper_row[:-1] + (second != symbol)
        best = jnp.minimum(upper_row[1:] + 1, substitutions)
        entries = jnp.concatenate([upper_row[:1] + 1, best])
        lower_row = columns + jax.lax.cummin(entries - columns)
        return lower_row, lower_row

    _, rows = jax.lax.scan(row, columns, first)
    table = jnp.concatenate([columns[None], rows])
    return table[lengths].astype(float)
