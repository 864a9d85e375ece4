"""Sums at tensor Chebyshev nodes of a box, and interpolation between them."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

from .cells import angles, to_coefficients
from .exact import LOG2E, exp2

AT_ONCE, LARGEST = 2048, 2**20  # tokens, and numbers, of a block at most
FEWEST = 128  # tokens of a block at least


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
        return self.within(jnp.matmul(vectors, self.axes, precision=HIGHEST))

    def within(self, along: Float[Array, "m r"]) -> Float[Array, "r m"]:
        """The same for vectors known along the axes."""
        return ((along - self.middle[None]) / self.half[None]).T

    def nodes(self, axis: int, count: int) -> Float[Array, " count"]:
        """The Chebyshev nodes along one axis."""
        unit = jnp.asarray(np.cos(angles(count)), self.half.dtype)
        return self.middle[axis] + self.half[axis] * unit


class Keyed(NamedTuple):
    """Keys: along the axes of a box, logarithms of their weights, and values."""

    along: Float[Array, "n k"]
    logs: Float[Array, " n"]
    values: Float[Array, "n p"]

    @property
    def summed(self) -> Float[Array, "r n"]:
        """What is summed: the values, and ones."""
        return jnp.concatenate([self.values.T, jnp.ones_like(self.logs)[None]])

    @property
    def rows(self) -> Float[Array, "r n"]:
        """The same times the weights."""
        weights = jnp.where(jnp.isneginf(self.logs), 0, exp2(LOG2E * self.logs))
        return self.summed * weights[None]


class Lattice(NamedTuple):
    """Nodes along each axis, and the largest exponents of keys there."""

    nodes: list[Float[Array, " count"]]
    tops: list[Float[Array, " count"]]

    @classmethod
    def over(
        cls, box: Box, keys: Float[Array, "n k"], counts: tuple[int, ...]
    ) -> "Lattice":
        """The nodes of a box, for keys along its axes."""
        nodes = [box.nodes(axis, count) for axis, count in enumerate(counts)]
        ends = jnp.min(keys, axis=0), jnp.max(keys, axis=0)
        low, high = jax.lax.stop_gradient(ends)
        tops = [jnp.maximum(x * low[i], x * high[i]) for i, x in enumerate(nodes)]
        return cls(nodes, tops)

    @property
    def exponents(self) -> Float[Array, "..."]:
        """The logarithm of what sums at nodes are divided by."""
        total = self.tops[0]
        for part in self.tops[1:]:
            total = total[..., None] + part.reshape(*[1] * total.ndim, -1)
        return total

    def sums(
        self, keys: Float[Array, "n k"], rows: Float[Array, "r n"]
    ) -> Float[Array, "r ..."]:
        """Sums of rows at all nodes, over so few keys that they are a block."""
        powers = [
            exp2(LOG2E * (x[:, None] * keys[None, :, i] - top[:, None]))
            for i, (x, top) in enumerate(zip(self.nodes, self.tops, strict=True))
        ]
        return _products(rows, powers)


def node_sums(
    lattice: Lattice, keys: Float[Array, "n k"], rows: Float[Array, "r n"]
) -> Float[Array, "r ..."]:
    """Sums of rows at all nodes, divided by `exp` of the lattice's exponents."""
    counts = [x.shape[0] for x in lattice.nodes]
    step = lambda sums, block: (sums + lattice.sums(*block), None)
    size = block_size(keys.shape[0], rows.shape[0] * math.prod(counts[:-1]))
    blocks = padded(keys, size), jnp.moveaxis(padded(rows.T, size), 1, 2)
    start = jnp.zeros((rows.shape[0], *counts), rows.dtype)
    return jax.lax.scan(jax.checkpoint(step, prevent_cse=False), start, blocks)[0]


def log_mean_between(
    box: Box, counts: tuple[int, ...], queries: Float[Array, "m k"], keys: Keyed
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means over all keys, and their log-masses; queries are along the same axes."""
    lattice = Lattice.over(box, keys.along, counts)
    sums = node_sums(lattice, keys.along, keys.rows)
    return between(sums, lattice, box.within(queries))


def between(
    sums: Float[Array, "r ..."], lattice: Lattice, at: Float[Array, "k m"]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means and log-masses at coordinates in the box, from sums at nodes."""
    mass = sums[-1]
    log_mass = jnp.log(mass) + lattice.exponents
    rows = interpolated(jnp.concatenate([sums[:-1] / mass[None], log_mass[None]]), at)
    return rows[:-1], rows[-1]


def _products(rows: Float[Array, "r n"], powers: list[Array]) -> Array:
    r"""$\sum_j r_j E_1[\\cdot, j] \\cdots E_k[\\cdot, j]$ as one matrix product."""
    *heads, tail = powers
    product = rows
    for power in heads:
        product = (product[:, None, :] * power[None]).reshape(-1, rows.shape[1])
    sums = jax.lax.dot_general(
        product, tail, (((1,), (1,)), ((), ())), precision=HIGHEST
    )
    return sums.reshape(rows.shape[0], *(power.shape[0] for power in powers))


def interpolated(
    values: Float[Array, "r ..."], at: Float[Array, "k m"]
) -> Float[Array, "r m"]:
    """Values at nodes interpolated at coordinates in the box."""
    counts = values.shape[1:]
    for axis, count in enumerate(counts, 1):
        matrix = jnp.asarray(to_coefficients(count), values.dtype)
        along = jnp.tensordot(matrix, values, (1, axis), precision=HIGHEST)
        values = jnp.moveaxis(along, 0, axis)
    m = at.shape[1]
    size = block_size(m, values.shape[0] * math.prod(counts[:-1]))

    def there(points: Float[Array, "size k"]) -> Array:
        sums = values.reshape(-1, counts[-1]) @ _polynomials(points[:, -1], counts[-1])
        for axis in reversed(range(len(counts) - 1)):
            basis = _polynomials(points[:, axis], counts[axis])
            sums = sums.reshape(-1, counts[axis], sums.shape[-1])
            sums = jnp.sum(sums * basis[None], axis=1)
        return sums

    blocks = jax.lax.map(jax.checkpoint(there, prevent_cse=False), padded(at.T, size))
    shape = (values.shape[0], blocks.shape[0] * size)
    return jnp.moveaxis(blocks, 1, 0).reshape(shape)[:, :m]


def _polynomials(x: Float[Array, " m"], count: int) -> Float[Array, "count m"]:
    r"""Chebyshev polynomials $T_0, \dots, T_{p-1}$."""

    def step(pair: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        before, now = pair
        return (now, 2 * x * now - before), before

    start = jnp.ones_like(x), x
    return jax.lax.scan(step, start, None, length=count)[1]


def block_size(tokens: int, width: int) -> int:
    """How many tokens at once, with so many numbers for each."""
    return min(tokens, AT_ONCE, max(FEWEST, LARGEST // max(width, 1)))


def padded(x: Float[Array, "n c"], size: int) -> Float[Array, "blocks size c"]:
    """Blocks of rows, the last filled up with zeros."""
    count = -(-x.shape[0] // size)
    padded = jnp.pad(x, [(0, count * size - x.shape[0]), (0, 0)])
    return padded.reshape(count, size, x.shape[1])
