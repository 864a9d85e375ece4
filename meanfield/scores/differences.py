r"""Scores from differences of keys, which rounding far from the origin does not reach.

Only differences of scores within a row enter a normalised sum. Measured from a
reference key $r$, which may depend on the query, and with $u = y - r$,

$$s(x, y) - s(x, r) = u\cdot(a - b\,u),$$

where $a = Ax$ and $b = 0$ for an inner product, and $a = 2b\,(x - r)$ for $-b$ times a
squared distance. Where $y$ and $r$ lie in one compact group $u$ is exact, and rounding
is relative to the difference; an expanded score is rounded at the size of $|x|\,|y|$.
"""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox.internal import unvmap_any
from jaxtyping import Array, Bool, Float

from meanfield._derivatives import ruled
from meanfield.linalg import HIGHEST

FEW = 4  # columns, of which differences cost no more than a matrix product
CHUNK = 8  # columns in one pass over a block of pairs

T = TypeVar("T")


class Differences(eqx.Module):
    r"""Vectors whose differences give differences of scores, in units of scores.

    Attributes:
        query: $a$ for an inner product; what a key is compared with for a distance.
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
    """The derivative of a matrix product of keys and queries, a pass for either."""
    (k, q), (dk, dq) = factors, tangents
    # The barrier keeps the transpose of the keys what it is: without, the compiler
    # would multiply by a strided matrix.
    rows = jax.lax.optimization_barrier(k.T)
    by_query = jax.lax.dot_general(
        rows, dq, (((0,), (0,)), ((), ())), precision=HIGHEST
    )
    return jnp.matmul(dk, q, precision=HIGHEST) + by_query


def _expanded_tangent(_: Array, primals: tuple, tangents: tuple) -> Array:
    (k, q, _), (dk, dq, offset) = primals[:3], tangents[:3]
    return product_tangent((k, q), (dk, dq)) + offset[:, None]


@ruled(_expanded_tangent)
def _from_references(
    k: Float[Array, "n k"],
    q: Float[Array, "k m"],
    offset: Float[Array, " n"],
    key: Float[Array, "n c"],
    slope: Float[Array, "c m"],
    reference: Float[Array, "c m"],
    *bend: Float[Array, ""],
) -> Float[Array, "n m"]:
    del k, q, offset  # derivatives are those of these

    def term(key: Array, slope: Array, reference: Array) -> Array:
        u = key[:, None] - reference[None]
        return u * (slope[None] - bend[0] * u if bend else slope[None])

    count = key.shape[1]
    if count <= FEW:
        terms = [term(key[:, i], slope[i], reference[i]) for i in range(count)]
        return sum(terms[1:], terms[0])
    sides = _chunks(key.T), _chunks(slope), _chunks(reference)

    def add(scores: Array, sides: tuple[Array, Array, Array]) -> tuple[Array, None]:
        terms = [term(*(side[i] for side in sides)) for i in range(CHUNK)]
        return scores + sum(terms[1:], terms[0]), None

    start = jnp.zeros((key.shape[0], slope.shape[1]), key.dtype)
    return jax.lax.scan(add, start, sides)[0]


def from_references(
    expanded: tuple[Float[Array, "n k"], Float[Array, "k m"], Float[Array, " n"]],
    key: Float[Array, "n c"],
    query: Float[Array, "c m"],
    reference: Float[Array, "c m"],
    bend: Float[Array, ""] | None,
) -> Float[Array, "n m"]:
    r"""Scores less those of the references, keys by queries.

    Derivatives are those of the expanded scores, $k\cdot q$ and an offset for each
    key: they are linear in the size of tokens, and need no differences.
    """
    if bend is None:
        return _from_references(*expanded, key, query, reference)
    slope = 2 * bend * (query - reference)
    return _from_references(*expanded, key, slope, reference, bend)


def _chunks(rows: Float[Array, "c m"]) -> Float[Array, "chunks chunk m"]:
    filled = jnp.pad(rows, [(0, -len(rows) % CHUNK), (0, 0)])
    return filled.reshape(-1, CHUNK, rows.shape[1])


def at_references(
    query: Float[Array, "k m"],
    reference: Float[Array, "k m"],
    bend: Float[Array, ""] | None,
    expanded: Float[Array, " m"],
) -> Float[Array, " m"]:
    """The scores of the references, a constant; inner products as `expanded`."""
    if bend is None:
        return jax.lax.stop_gradient(expanded)
    return -bend * jnp.sum((query - reference) ** 2, axis=0)


def variable(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Zero, with the derivative of `x`."""
    return x - jax.lax.stop_gradient(x)


def size_of_scores(
    k: Float[Array, "n k"], q: Float[Array, "k m"], offset: Float[Array, " n"]
) -> Float[Array, ""]:
    r"""A bound on the terms of expanded scores: $\max|k|\max|q| + \max|c|$.

    Rounding moves such a score by this times a unit in the last place.
    """
    k, q, offset = jax.lax.stop_gradient((k, q, offset))
    longest = jnp.sqrt(jnp.max(jnp.sum(k**2, axis=1)) * jnp.max(jnp.sum(q**2, axis=0)))
    return longest + jnp.max(jnp.where(jnp.isneginf(offset), 0, jnp.abs(offset)))


def is_rounded_away(size: Float[Array, ""]) -> Bool[Array, ""]:
    """Whether rounding moves expanded scores of this size by more than √eps."""
    return size * jnp.sqrt(jnp.finfo(size.dtype).eps) > 1


def unless_rounded_away(
    size: Float[Array, ""],
    columns: int,
    exact: Callable[[], T],
    expanded: Callable[[], T],
) -> T:
    """From differences where these are cheap or rounding calls for them."""
    if columns <= FEW:
        return exact()
    return jax.lax.cond(unvmap_any(is_rounded_away(size)), exact, expanded)
