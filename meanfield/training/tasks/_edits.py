"""How many edits turn one sequence into another."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def edit_distance(
    first: Int[Array, " m"],
    second: Int[Array, " n"],
    lengths: tuple[Int[Array, ""], Int[Array, ""]],
) -> Float[Array, ""]:
    r"""The fewest insertions, deletions and exchanges, of Levenshtein.

    Row by row: $D_{ij} = \min(D_{i-1,j} + 1, D_{i-1,j-1} + [a_i \neq b_j], D_{i,j-1} +
    1)$, where the last term is a running minimum, $D_{ij} = j + \min_{k \leq j}(E_{ik}
    - k)$ of the smaller of the first two.

    Args:
        first: symbols, of which those after its length are not read.
        second: likewise.
        lengths: of both.

    Examples:
        >>> from meanfield.training.tasks import edit_distance
        >>> first, second = jnp.array([1, 2, 3, 9]), jnp.array([2, 3, 3])
        >>> print(edit_distance(first, second, (jnp.array(3), jnp.array(3))))
        2.0
    """
    columns = jnp.arange(second.shape[0] + 1)

    def row(above: Array, symbol: Array) -> tuple[Array, Array]:
        exchanged = above[:-1] + (second != symbol)
        best = jnp.minimum(above[1:] + 1, exchanged)
        entries = jnp.concatenate([above[:1] + 1, best])
        below = columns + jax.lax.cummin(entries - columns)
        return below, below

    _, rows = jax.lax.scan(row, columns, first)
    table = jnp.concatenate([columns[None], rows])
    return table[lengths].astype(float)
