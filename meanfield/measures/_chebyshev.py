r"""Sums over keys by interpolation between Chebyshev nodes, for few dimensions.

With scores $q\cdot k_j + c_j$ the mean $M(q) = \sum_j e^{q\cdot k_j + c_j} v_j / Z(q)$
and $\log Z$ are analytic in $q$. They are summed exactly at the nodes of a tensor grid
around all queries and interpolated. Exponentials of inner products separate over axes,
so that sums at $p_1 \cdots p_k$ nodes are matrix products of $n(p_1 + \dots + p_k)$
exponentials: $O(n + m)$ instead of $O(nm)$. All terms are positive: nothing cancels.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from typing_extensions import override

from meanfield.linalg import HIGHEST
from meanfield.scores import AbstractQuadraticScore, AbstractScore
from meanfield.tokens import Tokens

from ._exp2 import LOG2E, exp2
from ._reduction import AbstractReduction, Blocked, Keys, Link

AT_ONCE, LARGEST = 2048, 2**20  # tokens, and numbers, of a block at most
FEWEST = 128  # tokens of a block at least


class Chebyshev(AbstractReduction):
    """Interpolation between so many nodes along each axis; else block by block.

    The axes are the principal ones of the queries, the widest first, and the box holds
    all queries of the call. Nothing here knows how good the interpolation is: see
    `meanfield.flows.planned`, which chooses `counts` and holds them to a tolerance.

    Attributes:
        tolerance: the largest error of a velocity, relative to the largest velocity.
        counts: nodes along each axis; `None` until planned, which is block by block.
        probes: tokens at which it is compared with exact sums during a flow.
        otherwise: how scores that are not quadratic, links, and other dimensions than
            there are counts, are summed.
    """

    tolerance: float = eqx.field(static=True, default=1e-6)
    counts: tuple[int, ...] | None = eqx.field(static=True, default=None)
    probes: Int[Array, " p"] | None = None
    otherwise: Blocked = Blocked()

    @override
    def log_mean(
        self, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
        counts = self.counts or ()
        few = not counts or queries.n < math.prod(counts)
        if few or not isinstance(score, AbstractQuadraticScore):
            return self.otherwise.log_mean(score, queries, keys)
        own = score.factors(queries, keys.tokens)
        counts = counts[: own.query.shape[1]]
        box = Box.around(own.query, len(counts))
        logs = keys.log_weights + own.of_key + own.key @ box.beside
        heaviest = jnp.argmax(logs)
        top = _finite(jax.lax.stop_gradient(logs[heaviest]))
        # What is excluded must not widen the range of exponents.
        out = jnp.isneginf(logs)
        k = jnp.where(out[:, None], own.key[heaviest][None], own.key)
        counted = jnp.where(out, 0, exp2(LOG2E * (logs - top)))
        ones = jnp.ones((1, keys.tokens.n), counted.dtype)
        rows = jnp.concatenate([keys.values.T, ones]) * counted[None]
        sums, tops = _node_sums(box, k @ box.axes, rows, counts)
        mass = sums[-1]
        at = box.coordinates(own.query)
        means = _interpolated(sums[:-1] / mass[None], at)
        logs = _interpolated((jnp.log(mass) + tops)[None], at)[0]
        return means.T, logs + top + own.of_query

    @override
    def integral(
        self, link: Link, score: AbstractScore, queries: Tokens, keys: Keys
    ) -> Float[Array, "m p"]:
        return self.otherwise.integral(link, score, queries, keys)


def exactly(tree: PyTree) -> PyTree:
    """A tree, a measure or a field, with exact sums in place of interpolated ones."""
    interpolates = lambda leaf: isinstance(leaf, Chebyshev)
    replace = lambda leaf: leaf.otherwise if isinstance(leaf, Chebyshev) else leaf
    return jax.tree.map(replace, tree, is_leaf=interpolates)


class Box(eqx.Module):
    """A box around vectors, along their principal axes, the widest first.

    Attributes:
        axes: the directions, one each column.
        middle: of the box, along the axes.
        half: half of its widths.
        beside: the mean of the vectors, less its part along the axes.
    """

    axes: Float[Array, "k r"]
    middle: Float[Array, " r"]
    half: Float[Array, " r"]
    beside: Float[Array, " k"]

    @classmethod
    def around(cls, vectors: Float[Array, "m k"], rank: int) -> "Box":
        """The smallest that holds them; a constant for derivatives."""
        q = jax.lax.stop_gradient(vectors)
        mean = jnp.mean(q, axis=0)
        centred = q - mean[None]
        axes = jnp.linalg.eigh(jnp.matmul(centred.T, centred))[1][:, ::-1][:, :rank]
        along = jnp.matmul(q, axes, precision=HIGHEST)
        low, high = jnp.min(along, axis=0), jnp.max(along, axis=0)
        half = (high - low) / 2
        # A box without width has one value; any width gives it.
        half = jnp.where(half > 0, half, 1)
        return cls(axes, (low + high) / 2, half, mean - axes @ (axes.T @ mean))

    def coordinates(self, vectors: Float[Array, "m k"]) -> Float[Array, "r m"]:
        """Where vectors are in the box, in [-1, 1]."""
        along = jnp.matmul(vectors, self.axes, precision=HIGHEST)
        return ((along - self.middle[None]) / self.half[None]).T

    def nodes(self, axis: int, count: int) -> Float[Array, " count"]:
        """The Chebyshev nodes along one axis."""
        unit = jnp.asarray(np.cos(_angles(count)), self.half.dtype)
        return self.middle[axis] + self.half[axis] * unit


def _node_sums(
    box: Box,
    keys: Float[Array, "n k"],
    rows: Float[Array, "r n"],
    counts: tuple[int, ...],
) -> tuple[Float[Array, "r ..."], Float[Array, "..."]]:
    """Sums of rows at all nodes, and the logarithm of what they were divided by."""
    nodes = [box.nodes(axis, count) for axis, count in enumerate(counts)]
    ends = jnp.min(keys, axis=0), jnp.max(keys, axis=0)
    frozen = jax.lax.stop_gradient(ends)
    tops = [
        jnp.maximum(x * frozen[0][i], x * frozen[1][i]) for i, x in enumerate(nodes)
    ]

    def step(sums: Array, block: tuple[Array, Array]) -> tuple[Array, None]:
        y, own = block
        powers = [
            exp2(LOG2E * (x[:, None] * y[None, :, i] - top[:, None]))
            for i, (x, top) in enumerate(zip(nodes, tops, strict=True))
        ]
        return sums + _products(own, powers), None

    size = _block(keys.shape[0], rows.shape[0] * math.prod(counts[:-1]))
    blocks = _padded(keys, size), jnp.moveaxis(_padded(rows.T, size), 1, 2)
    start = jnp.zeros((rows.shape[0], *counts), rows.dtype)
    step = jax.checkpoint(step, prevent_cse=False)
    return jax.lax.scan(step, start, blocks)[0], _outer_sum(tops)


def _products(rows: Float[Array, "r n"], powers: list[Array]) -> Array:
    r"""$\sum_j r_j E_1[\\cdot, j] \\cdots E_k[\\cdot, j]$ as one matrix product."""
    *leading, last = powers
    left = rows
    for each in leading:
        left = (left[:, None, :] * each[None]).reshape(-1, rows.shape[1])
    sums = jax.lax.dot_general(left, last, (((1,), (1,)), ((), ())), precision=HIGHEST)
    return sums.reshape(rows.shape[0], *(each.shape[0] for each in powers))


def _interpolated(
    values: Float[Array, "r ..."], at: Float[Array, "k m"]
) -> Float[Array, "r m"]:
    """Values at nodes interpolated at coordinates in the box."""
    counts = values.shape[1:]
    for axis, count in enumerate(counts, 1):
        matrix = _cosine_transform(count, values.dtype)
        along = jnp.tensordot(matrix, values, (1, axis), precision=HIGHEST)
        values = jnp.moveaxis(along, 0, axis)
    m = at.shape[1]
    size = _block(m, values.shape[0] * math.prod(counts[:-1]))

    def there(some: Float[Array, "size k"]) -> Array:
        found = values.reshape(-1, counts[-1]) @ _polynomials(some[:, -1], counts[-1])
        for axis in reversed(range(len(counts) - 1)):
            basis = _polynomials(some[:, axis], counts[axis])
            found = found.reshape(-1, counts[axis], found.shape[-1])
            found = jnp.sum(found * basis[None], axis=1)
        return found

    blocks = jax.lax.map(jax.checkpoint(there, prevent_cse=False), _padded(at.T, size))
    joined = (values.shape[0], blocks.shape[0] * size)
    return jnp.moveaxis(blocks, 1, 0).reshape(joined)[:, :m]


def _polynomials(x: Float[Array, " m"], count: int) -> Float[Array, "count m"]:
    r"""Chebyshev polynomials $T_0, \dots, T_{p-1}$."""

    def step(last: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        before, now = last
        return (now, 2 * x * now - before), before

    start = jnp.ones_like(x), x
    return jax.lax.scan(step, start, None, length=count)[1]


def _angles(count: int) -> np.ndarray:
    return np.pi * (np.arange(count) + 0.5) / count


def _cosine_transform(count: int, dtype: jnp.dtype) -> Float[Array, "count count"]:
    """From values at nodes to coefficients."""
    matrix = 2 / count * np.cos(np.outer(np.arange(count), _angles(count)))
    matrix[0] /= 2
    return jnp.asarray(matrix, dtype)


def _block(tokens: int, width: int) -> int:
    """How many tokens at once, with so many numbers for each."""
    return min(tokens, AT_ONCE, max(FEWEST, LARGEST // max(width, 1)))


def _outer_sum(parts: list[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total[..., None] + part.reshape(*[1] * total.ndim, -1)
    return total


def _padded(x: Float[Array, "n c"], size: int) -> Float[Array, "blocks size c"]:
    count = -(-x.shape[0] // size)
    padded = jnp.pad(x, [(0, count * size - x.shape[0]), (0, 0)])
    return padded.reshape(count, size, x.shape[1])


def _finite(top: Array) -> Array:
    return jnp.where(jnp.isneginf(top), 0, top)
