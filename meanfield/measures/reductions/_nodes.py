"""Sums at tensor Chebyshev nodes in a box, and interpolation from them."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST, eigh

from .cells import angles, to_coefficients
from .kernels import LOG2E, exp2

# Maximum number of tokens in a block, and of the numbers that it holds for its tokens.
MAX_TOKENS, MAX_BLOCK_NUMBERS = 2048, 2**20
MIN_TOKENS = 128  # number of tokens that a block may always have


class Box(eqx.Module):
    """A box around vectors, along their principal axes, the widest first.

    Attributes:
        axes: the directions, as columns.
        middle: centre of the box, along the axes.
        half: half-widths of the box.
        orthogonal_mean: mean of the vectors, minus its projection onto the axes.
    """

    axes: Float[Array, "k r"]
    middle: Float[Array, " r"]
    half: Float[Array, " r"]
    orthogonal_mean: Float[Array, " k"]

    @classmethod
    def from_vectors(cls, vectors: Float[Array, "m k"], rank: int) -> "Box":
        """The smallest box around `vectors`; derivatives treat it as a constant."""
        q = jax.lax.stop_gradient(vectors)
        mean = jnp.mean(q, axis=0)
        centred_q = q - mean[None]
        axes = eigh(jnp.matmul(centred_q.T, centred_q))[1][:, ::-1][:, :rank]
        projections = jnp.matmul(q, axes, precision=HIGHEST)
        low, high = jnp.min(projections, axis=0), jnp.max(projections, axis=0)
        half = (high - low) / 2
        # If all vectors coincide along an axis, any positive half-width is valid.
        half = jnp.where(half > 0, half, 1)
        return cls(axes, (low + high) / 2, half, mean - axes @ (axes.T @ mean))

    def coordinates(self, vectors: Float[Array, "m k"]) -> Float[Array, "r m"]:
        """Coordinates of vectors in the box, in [-1, 1]."""
        return self.normalise(jnp.matmul(vectors, self.axes, precision=HIGHEST))

    def normalise(self, projections: Float[Array, "m r"]) -> Float[Array, "r m"]:
        """Coordinates of projections onto the axes, in [-1, 1]."""
        return ((projections - self.middle[None]) / self.half[None]).T

    def nodes(self, axis: int, count: int) -> Float[Array, " count"]:
        """The Chebyshev nodes along one axis."""
        unit = jnp.asarray(np.cos(angles(count)), self.half.dtype)
        return self.middle[axis] + self.half[axis] * unit


class ProjectedKeys(NamedTuple):
    """Keys, projected onto the axes of a box, with log-weights and values."""

    projections: Float[Array, "n k"]
    logs: Float[Array, " n"]
    values: Float[Array, "n p"]

    @property
    def value_rows(self) -> Float[Array, "r n"]:
        """The rows to sum: the rows of values, and a row of ones."""
        return jnp.concatenate([self.values.T, jnp.ones_like(self.logs)[None]])

    @property
    def weighted_rows(self) -> Float[Array, "r n"]:
        """The rows to sum, `value_rows`, times the weights of the keys."""
        weights = jnp.where(jnp.isneginf(self.logs), 0, exp2(LOG2E * self.logs))
        return self.value_rows * weights[None]


class Lattice(NamedTuple):
    """Nodes along each axis, and the largest exponent of the keys at each node."""

    nodes: list[Float[Array, " count"]]
    tops: list[Float[Array, " count"]]

    @classmethod
    def from_box(
        cls, box: Box, keys: Float[Array, "n k"], counts: tuple[int, ...]
    ) -> "Lattice":
        """The nodes of a box, for keys projected onto its axes."""
        nodes = [box.nodes(axis, count) for axis, count in enumerate(counts)]
        ends = jnp.min(keys, axis=0), jnp.max(keys, axis=0)
        low, high = jax.lax.stop_gradient(ends)
        tops = [jnp.maximum(x * low[i], x * high[i]) for i, x in enumerate(nodes)]
        return cls(nodes, tops)

    @property
    def exponents(self) -> Float[Array, "..."]:
        """The logarithms of the numbers by which the sums at the nodes are divided."""
        total = self.tops[0]
        for part in self.tops[1:]:
            total = total[..., None] + part.reshape(*[1] * total.ndim, -1)
        return total

    def sums(
        self, keys: Float[Array, "n k"], rows: Float[Array, "r n"]
    ) -> Float[Array, "r ..."]:
        """Sums at all nodes of `rows` times the kernel, over the keys of one block."""
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
    blocks = pad_to_blocks(keys, size), jnp.moveaxis(pad_to_blocks(rows.T, size), 1, 2)
    start = jnp.zeros((rows.shape[0], *counts), rows.dtype)
    return jax.lax.scan(jax.checkpoint(step, prevent_cse=False), start, blocks)[0]


def chebyshev_log_mean(
    box: Box, counts: tuple[int, ...], queries: Float[Array, "m k"], keys: ProjectedKeys
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means over all keys, and log-masses, for queries projected onto the box axes."""
    lattice = Lattice.from_box(box, keys.projections, counts)
    sums = node_sums(lattice, keys.projections, keys.weighted_rows)
    return interpolate_log_mean(sums, lattice, box.normalise(queries))


def interpolate_log_mean(
    sums: Float[Array, "r ..."], lattice: Lattice, coordinates: Float[Array, "k m"]
) -> tuple[Float[Array, "p m"], Float[Array, " m"]]:
    """Means and log-masses at coordinates in the box, interpolated from the nodes."""
    mass = sums[-1]
    log_mass = jnp.log(mass) + lattice.exponents
    rows = interpolate(
        jnp.concatenate([sums[:-1] / mass[None], log_mass[None]]), coordinates
    )
    return rows[:-1], rows[-1]


def _products(rows: Float[Array, "r n"], powers: list[Array]) -> Array:
    r"""Sums $\sum_j r_j E_1[\cdot, j] \cdots E_k[\cdot, j]$ as one matrix product."""
    *heads, tail = powers
    product = rows
    for power in heads:
        product = (product[:, None, :] * power[None]).reshape(-1, rows.shape[1])
    sums = jax.lax.dot_general(
        product, tail, (((1,), (1,)), ((), ())), precision=HIGHEST
    )
    return sums.reshape(rows.shape[0], *(power.shape[0] for power in powers))


def interpolate(
    values: Float[Array, "r ..."], coordinates: Float[Array, "k m"]
) -> Float[Array, "r m"]:
    """Interpolates values at nodes to coordinates in the box."""
    counts = values.shape[1:]
    for axis, count in enumerate(counts, 1):
        matrix = jnp.asarray(to_coefficients(count), values.dtype)
        coefficients = jnp.tensordot(matrix, values, (1, axis), precision=HIGHEST)
        values = jnp.moveaxis(coefficients, 0, axis)
    m = coordinates.shape[1]
    size = block_size(m, values.shape[0] * math.prod(counts[:-1]))

    def evaluate_block(points: Float[Array, "size k"]) -> Array:
        sums = values.reshape(-1, counts[-1]) @ _polynomials(points[:, -1], counts[-1])
        for axis in reversed(range(len(counts) - 1)):
            basis = _polynomials(points[:, axis], counts[axis])
            sums = sums.reshape(-1, counts[axis], sums.shape[-1])
            sums = jnp.sum(sums * basis[None], axis=1)
        return sums

    blocks = jax.lax.map(
        jax.checkpoint(evaluate_block, prevent_cse=False),
        pad_to_blocks(coordinates.T, size),
    )
    shape = (values.shape[0], blocks.shape[0] * size)
    return jnp.moveaxis(blocks, 1, 0).reshape(shape)[:, :m]


def _polynomials(x: Float[Array, " m"], count: int) -> Float[Array, "count m"]:
    r"""Chebyshev polynomials $T_0, \dots, T_{p-1}$."""

    def step(pair: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        previous, current = pair
        return (current, 2 * x * current - previous), previous

    start = jnp.ones_like(x), x
    return jax.lax.scan(step, start, None, length=count)[1]


def block_size(tokens: int, width: int) -> int:
    """Number of tokens in a block that holds `width` numbers for each token."""
    return min(tokens, MAX_TOKENS, max(MIN_TOKENS, MAX_BLOCK_NUMBERS // max(width, 1)))


def pad_to_blocks(x: Float[Array, "n c"], size: int) -> Float[Array, "blocks size c"]:
    """Splits rows into blocks, and pads the last block with zeros."""
    count = -(-x.shape[0] // size)
    padded_x = jnp.pad(x, [(0, count * size - x.shape[0]), (0, 0)])
    return padded_x.reshape(count, size, x.shape[1])
