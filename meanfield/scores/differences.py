r"""Scores from differences of keys, which stay accurate far from the origin.

A normalised sum depends only on differences of scores within a row. Let $r$ be a
reference key, which may depend on the query, and let $u = y - r$. Then

$$s(x, y) - s(x, r) = u\cdot(a - b\,u).$$

For an inner product, $a = Ax$ and $b = 0$. For the squared distance times $-b$,
$a = 2b\,(x - r)$. If $y$ and $r$ lie in one compact group, $u$ is exact, and the
rounding error is proportional to the difference of scores. The rounding error of an
expanded score is proportional to $|x|\,|y|$.
"""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any
from jaxtyping import Array, Bool, Float

from meanfield._derivatives import custom_derivative
from meanfield.linalg import HIGHEST

MAX_COLUMNS = 4  # up to this number, differences are as fast as a matrix product
CHUNK = 8  # number of columns in one pass over a block of pairs

T = TypeVar("T")


class Differences(eqx.Module):
    r"""Vectors from which differences of scores are computed.

    Attributes:
        query: $a$ for an inner product; for a distance, the point $x$ in $x - r$.
        key: the vectors whose differences are $u$.
        bend: $b$; `None` for an inner product.
    """

    query: Float[Array, "m k"]
    key: Float[Array, "n k"]
    bend: Float[Array, ""] | None = None


def product_tangent(
    factors: tuple[Float[Array, "n k"], Float[Array, "k m"]],
    tangents: tuple[Float[Array, "n k"], Float[Array, "k m"]],
) -> Float[Array, "n m"]:
    """The derivative of the product of keys and queries, as a sum of two products."""
    (k, q), (dk, dq) = factors, tangents
    # The barrier stores the transposed keys as an array. Without the barrier, the
    # compiler would multiply by a strided matrix.
    rows = jax.lax.optimization_barrier(k.T)
    query_part = jax.lax.dot_general(
        rows, dq, (((0,), (0,)), ((), ())), precision=HIGHEST
    )
    return jnp.matmul(dk, q, precision=HIGHEST) + query_part


def _expansion_tangent(_: Array, primals: tuple, tangents: tuple) -> Array:
    (k, q, _), (dk, dq, offset) = primals[:3], tangents[:3]
    return product_tangent((k, q), (dk, dq)) + offset[:, None]


@custom_derivative(_expansion_tangent)
def _from_references(
    k: Float[Array, "n k"],
    q: Float[Array, "k m"],
    offset: Float[Array, " n"],
    key: Float[Array, "n c"],
    slope: Float[Array, "c m"],
    reference: Float[Array, "c m"],
    *bend: Float[Array, ""],
) -> Float[Array, "n m"]:
    del k, q, offset  # only the derivative uses them

    def term(key: Array, coefficient: Array, reference: Array) -> Array:
        u = key[:, None] - reference[None]
        return u * (coefficient[None] - bend[0] * u if bend else coefficient[None])

    count = key.shape[1]
    if count <= MAX_COLUMNS:
        terms = [term(key[:, i], slope[i], reference[i]) for i in range(count)]
        return sum(terms[1:], terms[0])
    sides = _chunks(key.T), _chunks(slope), _chunks(reference)

    def add(scores: Array, sides: tuple[Array, Array, Array]) -> tuple[Array, None]:
        terms = [term(*(side[i] for side in sides)) for i in range(CHUNK)]
        return scores + sum(terms[1:], terms[0]), None

    start = jnp.zeros((key.shape[0], slope.shape[1]), key.dtype)
    return jax.lax.scan(add, start, sides)[0]


def from_references(
    expansion: tuple[Float[Array, "n k"], Float[Array, "k m"], Float[Array, " n"]],
    key: Float[Array, "n c"],
    query: Float[Array, "c m"],
    reference: Float[Array, "c m"],
    bend: Float[Array, ""] | None,
) -> Float[Array, "n m"]:
    r"""Scores minus the scores of the references, with keys in rows.

    Derivatives are those of the expanded scores, which are $k\cdot q$ plus an offset
    for each key. They are linear in the size of tokens, so they need no differences.
    """
    if bend is None:
        return _from_references(*expansion, key, query, reference)
    coefficient = 2 * bend * (query - reference)
    return _from_references(*expansion, key, coefficient, reference, bend)


def _chunks(rows: Float[Array, "c m"]) -> Float[Array, "chunks chunk m"]:
    padded_rows = jnp.pad(rows, [(0, -len(rows) % CHUNK), (0, 0)])
    return padded_rows.reshape(-1, CHUNK, rows.shape[1])


def reference_scores(
    query: Float[Array, "k m"],
    reference: Float[Array, "k m"],
    bend: Float[Array, ""] | None,
    expansion: Float[Array, " m"],
) -> Float[Array, " m"]:
    """The scores of references; for inner products, `expansion` without gradients."""
    if bend is None:
        return jax.lax.stop_gradient(expansion)
    return -bend * jnp.sum((query - reference) ** 2, axis=0)


def zero_with_tangent(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Zero as a value, but with the derivative of `x`."""
    return x - jax.lax.stop_gradient(x)


def size_of_scores(
    k: Float[Array, "n k"], q: Float[Array, "k m"], offset: Float[Array, " n"]
) -> Float[Array, ""]:
    r"""The bound $\max|k|\max|q| + \max|c|$ on the terms of expanded scores.

    The rounding error of an expanded score is about eps times this bound.
    """
    k, q, offset = jax.lax.stop_gradient((k, q, offset))
    longest = jnp.sqrt(jnp.max(jnp.sum(k**2, axis=1)) * jnp.max(jnp.sum(q**2, axis=0)))
    return longest + jnp.max(jnp.where(jnp.isneginf(offset), 0, jnp.abs(offset)))


def is_rounded_away(size: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether rounding errors of expanded scores of this size exceed √eps."""
    return size * jnp.sqrt(jnp.finfo(size.dtype).eps) > 1


def choose_by_rounding(
    size: Float[Array, ""],
    columns: int,
    exact: Callable[[], T],
    expansion: Callable[[], T],
) -> T:
    """Calls `exact` if differences are cheap or needed, and `expansion` otherwise."""
    if columns <= MAX_COLUMNS:
        return exact()
    return jax.lax.cond(unvmap_any(is_rounded_away(size)), exact, expansion)
