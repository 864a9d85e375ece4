"""Tiles of a kernel, and arrays that are padded to whole tiles.

A program of a kernel holds the *resident* tokens of one tile and loops over the tiles
of the *stream*. Up to `MAX_ROWS` rows are multiplied one by one, with fused
multiply-adds in the precision of the arrays; more rows are multiplied as matrices.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from meanfield.linalg import HIGHEST

from ._instructions import multiply_add
from ._method import KernelSide, Method, Terms, Tile

# More rows than this are multiplied as matrices, this number at a time: longer products
# need more registers than a thread has.
MAX_ROWS = 16
# Matrix products need shared memory of about twice the size of the resident tokens. All
# cards have 99 kB.
SHARED_BYTES = 48_000
WARP, N_WARPS = 32, 4  # threads in a warp, and warps in a program
MAX_RESIDENT, MAX_STREAM = 64, 32  # tokens in a tile of matrix products
MAX_UNROLLED = 16  # tokens of the stream in other tiles
REGISTERS = 192  # for the arrays of a thread, which can have 255
N_PROGRAMS = 1024  # programs that keep all multiprocessors of a large device busy
MIN_PART = 64  # tokens of the stream that keep a program busy

Arrays = tuple[KernelSide, KernelSide, Terms]
Tree = TypeVar("Tree")


class Plan(NamedTuple):
    """A method, and the shapes of its programs.

    Attributes:
        method: the method.
        tile: the tile of a program.
        needs_matrices: whether rows are multiplied as matrices.
        is_relative: whether scores are relative to references.
        n_tiles: number of tiles of the stream.
        n_parts: number of parts of the stream, one for each program.
    """

    method: Method
    tile: Tile
    needs_matrices: bool
    is_relative: bool
    n_tiles: int
    n_parts: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a tile, with the tokens of the stream in rows."""
        return self.tile.stream, self.tile.resident

    def divide(self, n_blocks: int) -> "Plan":
        """The plan with enough parts of the stream to keep a device busy."""
        most_parts = math.ceil(self.n_tiles * self.tile.stream / MIN_PART)
        n_parts = min(math.ceil(N_PROGRAMS / n_blocks), most_parts)
        return self._replace(n_parts=n_parts)

    def rows(self, ref: Any, tile: tuple[Array, ...]) -> list[Array]:
        """Rows of the tokens of a tile, as in `single_rows`; or matrices of rows."""
        if not self.needs_matrices:
            return single_rows(ref, tile)
        starts = range(0, ref.shape[-2], MAX_ROWS)
        return [ref[(*tile, pl.ds(start, MAX_ROWS), slice(None))] for start in starts]

    def add_inner(self, stream: Array, resident: Array, numbers: Array) -> Array:
        """Adds products of two rows, or of two matrices, to numbers of all pairs."""
        if self.needs_matrices:
            return numbers + _product(stream.T, resident)
        return multiply_add(self.method, stream, resident, numbers)

    def add_outer(self, rows: Array, weights: Array, sums: Array) -> Array:
        """Adds rows times the weights of all pairs to their sums."""
        if self.needs_matrices:
            return sums + _product(rows, weights)
        return multiply_add(self.method, rows, weights, sums)

    def zeros(self, n_rows: int, dtype: jnp.dtype) -> list[Array]:
        """The first sums of `n_rows` rows."""
        if not self.needs_matrices:
            return [jnp.zeros(self.shape, dtype)] * n_rows
        zeros = jnp.zeros((MAX_ROWS, self.tile.resident), dtype)
        return [zeros] * (n_rows // MAX_ROWS)

    def finish(self, sums: list[Array]) -> list[Array]:
        """Sums over all tokens of the stream, in matrices of one or several rows."""
        if self.needs_matrices:
            return sums
        return [jnp.sum(x, axis=0, keepdims=True) for x in sums]


def plan_programs(
    method: Method, resident: KernelSide, stream: KernelSide, terms: Terms
) -> tuple[Plan, Arrays]:
    """A plan, and the padded arrays; those of the stream are divided into tiles."""
    arrays = resident, stream, terms
    is_relative = method.order(resident, stream)[0].references is not None
    needs_matrices = max(x.shape[0] for x in jax.tree.leaves(arrays)) > MAX_ROWS
    if needs_matrices:
        pad_side = _pad_factors if is_relative else _pad_products
        arrays = pad_side(resident), pad_side(stream), _pad(terms, MAX_ROWS, 0)
    tile = method.tile or _tile(arrays, needs_matrices=needs_matrices)
    n = stream.offset.shape[1]
    plan = Plan(method, tile, needs_matrices, is_relative, math.ceil(n / tile.stream))
    size = tile.stream
    stream, terms = _pad(arrays[1], size, 1, "edge"), _pad(arrays[2], size, 1)
    # The rows of a tile are contiguous, so that one address is enough for all of them.
    tiles = jax.tree.map(functools.partial(_split_tiles, tile.stream), (stream, terms))
    return plan, (_pad(arrays[0], tile.resident, 1, "edge"), *tiles)


def launch_programs(
    program: Callable[..., None],
    plan: Plan,
    arrays: Arrays,
    results: list[tuple[int, Any]],
    *,
    join_parts: Callable[..., tuple[Array, ...]],
) -> tuple[Array, ...]:
    """Runs `program` for each block of resident tokens and each part of the stream.

    `results` are pairs of a number of rows and a dtype, and `join_parts` joins those of
    all parts, along the second axis. Under `vmap`, however nested, one launch has the
    programs of all members: Triton has no more than three axes.
    """

    @jax.custom_batching.custom_vmap
    def run(arrays: Arrays) -> tuple[Array, ...]:
        return join_parts(*_launch(program, plan, arrays, results))

    @run.def_vmap
    def run_batch(size: int, is_batched: list, arrays: Arrays) -> tuple[Any, Any]:
        def join(x: Array, has_axis: bool) -> Array:  # noqa: FBT001
            x = x if has_axis else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(-1, *x.shape[2:])

        sums = run(jax.tree.map(join, arrays, is_batched[0]))
        by_member = tuple(x.reshape(size, -1, *x.shape[1:]) for x in sums)
        return by_member, (True,) * len(by_member)

    return tuple(x[0] for x in run(jax.tree.map(lambda x: x[None], arrays)))


def _launch(
    program: Callable[..., None],
    plan: Plan,
    arrays: Arrays,
    results: list[tuple[int, Any]],
) -> tuple[Array, ...]:
    """One launch for all members of a batch, along the first axis."""
    size, (n_members, _, m) = plan.tile.resident, arrays[0].offset.shape
    plan = plan.divide(n_members * m // size)
    n_parts, n_programs = plan.n_parts, m // size * plan.n_parts

    def place(i: Any) -> tuple[Any, ...]:  # member, part, all rows, block
        return i // n_programs, i % n_parts, 0, i % n_programs // n_parts

    def block(x: Array) -> pl.BlockSpec:
        shape = (None, x.shape[1], size)
        return pl.BlockSpec(shape, lambda i: (place(i)[0], 0, place(i)[3]))

    def whole(x: Array) -> pl.BlockSpec:
        return pl.BlockSpec((None, *x.shape[1:]), lambda i: (i // n_programs, 0, 0, 0))

    def sums(x: jax.ShapeDtypeStruct) -> pl.BlockSpec:
        return pl.BlockSpec((None, None, x.shape[2], size), place)

    outputs = tuple(
        jax.ShapeDtypeStruct((n_members, n_parts, k, m), dtype) for k, dtype in results
    )
    return pl.pallas_call(
        functools.partial(program, plan),
        grid=(n_members * n_programs,),
        in_specs=(jax.tree.map(block, arrays[0]), *jax.tree.map(whole, arrays[1:])),
        out_specs=tuple(map(sums, outputs)),
        out_shape=outputs,
        compiler_params=triton.CompilerParams(plan.tile.n_warps, num_stages=1),
        interpret=plan.method.is_interpreted,
    )(*arrays)


def single_rows(ref: Any, tile: tuple[Array, ...]) -> list[Array]:
    """The rows of tokens: of the tile of a stream, or of resident tokens, without one.

    The tokens of a stream vary along the first axis, and resident ones along the last.
    """
    rows = [ref[(*tile, i, slice(None))] for i in range(ref.shape[-2])]
    return [jnp.expand_dims(row, len(tile)) for row in rows]


def _tile(arrays: Arrays, *, needs_matrices: bool) -> Tile:
    """A tile whose numbers fit into the registers of a thread."""
    resident, _, terms = arrays
    m, itemsize = resident.offset.shape[1], resident.offset.dtype.itemsize
    n_sums = sum(x.shape[0] for x in jax.tree.leaves(terms))
    n_held = sum(x.shape[0] for x in jax.tree.leaves(resident))
    if needs_matrices:
        size = _power_of_two(SHARED_BYTES // (itemsize * n_held))
        return Tile(min(MAX_RESIDENT, size), min(MAX_STREAM, size), N_WARPS)
    n_warps = _power_of_two(max(1, min(N_WARPS, m // WARP)))
    n_threads = n_warps * WARP
    # Numbers of streamed tokens are loaded once for all resident tokens of a thread.
    n_resident = 2 if m >= 2 * n_threads else 1
    room = REGISTERS * 4 // itemsize - n_resident * n_held
    n_stream = _power_of_two(max(1, room // (n_resident * (n_sums + 3))))
    return Tile(n_resident * n_threads, min(MAX_UNROLLED, n_stream), n_warps)


def _split_tiles(size: int, x: Float[Array, "k n"]) -> Float[Array, "tiles k size"]:
    return jnp.moveaxis(x.reshape(x.shape[0], -1, size), 1, 0)


def _power_of_two(limit: int) -> int:
    """The largest power of two up to `limit`."""
    return 2 ** (limit.bit_length() - 1)


def _pad_factors(side: KernelSide) -> KernelSide:
    """A side whose factors have enough rows for matrix products."""
    return side._replace(factors=_pad(side.factors, MAX_ROWS, 0))


def _pad_products(side: KernelSide) -> KernelSide:
    """A side whose vectors and factors have enough rows for matrix products."""
    return _pad_factors(side)._replace(vectors=_pad(side.vectors, MAX_ROWS, 0))


def _pad(tree: Tree, multiple: int, axis: int, mode: str = "constant") -> Tree:
    """Pads an axis of all arrays to a multiple of a number."""

    def pad(x: Array) -> Array:
        widths = [(0, 0), (0, 0)]
        widths[axis] = (0, -x.shape[axis] % multiple)
        return jnp.pad(x, widths, mode)

    return jax.tree.map(pad, tree)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=HIGHEST)
