"""Passes over all pairs: by kernels on a CUDA device, otherwise by programs of XLA.

Kernels are used for scores that are inner products, with links and masks that act on
single numbers, if JAX has one device and its first kernels give the right numbers. All
other passes stream blocks. Sums and their first derivatives in reverse mode are
kernels; other derivatives are those of streamed sums.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import stop_gradient
from meanfield._derivatives import WithGradient
from meanfield.measures.reductions import kernels
from meanfield.measures.reductions.kernels import Method
from meanfield.scores import Masked
from meanfield.scores.pairs import Link, Pairs, require_vectors

from ._block_kernels import (
    drop_axis,
    fits_kernel,
    kernel_best,
    kernel_gradient,
    kernel_largest,
    kernel_total,
)
from ._streaming import Blocks, Shape, cut, stream_best, stream_largest, stream_total

T = TypeVar("T")

MAX_COMPONENTS = 128  # of a vector, or of a value, in a kernel


def block_shape(platform: str, itemsize: int) -> Shape:
    """The fastest measured block size: 4 MB on a CPU, and more on a GPU."""
    if platform == "cpu":
        return Shape(512, 8192 // itemsize)
    return Shape(4096, 65536 // itemsize)


def divide(pairs: Pairs, shape: Shape, link: Link) -> Blocks:
    """The pairs as one block if kernels can evaluate them, otherwise cut."""
    method, vectors = kernel_method(), pairs.queries.vectors
    dtype = pairs.remainder.dtype
    mask = pairs.score.mask if isinstance(pairs.score, Masked) else None
    if (
        method is None
        or vectors is None
        or vectors.shape[0] > MAX_COMPONENTS
        or not kernels.is_entrywise(link, dtype)
        or not (mask is None or kernels.is_entrywise(mask, dtype, 2))
    ):
        return cut(pairs, shape)
    return cut(pairs, shape, method._replace(mask=mask))


def kernel_method() -> Method | None:
    """The default method of kernels; `None` without a CUDA device where they work."""
    return _method_of_precision(jax.dtypes.canonicalize_dtype(float))


@functools.cache
def _method_of_precision(_: np.dtype) -> Method | None:
    """The method for the precision of the process, which may change once."""
    devices = jax.devices()
    if "cuda" not in devices[0].client.platform_version or len(devices) > 1:
        return None
    try:
        return kernels.checked_method(Method())
    except ImportError:  # JAX announces versions without Triton in Pallas
        return None


def total(
    blocks: Blocks, link: Link, values: Float[Array, "bn p keys"]
) -> Float[Array, "bm p queries"]:
    """Sums over all keys of `values` times `link` of the scores, for all queries."""
    if blocks.method is None:
        return stream_total(blocks, link, values)
    # A mean has one more row of values, for the mass.
    if values.shape[1] > MAX_COMPONENTS + 1:
        return _cut_total(blocks, link, values)
    return _total_with_gradient(blocks, link, values)


def largest(blocks: Blocks) -> Float[Array, "bm queries"]:
    """The largest score of each query; `-inf` if all keys are excluded."""
    if blocks.method is None:
        return stream_largest(blocks)
    return _choose(blocks, kernel_largest, _cut_largest, blocks)


def best(blocks: Blocks) -> Float[Array, "bm rows queries"]:
    """The largest score of each query, with the log-weight and vector of its key."""
    if blocks.method is None:
        return stream_best(blocks)
    return _choose(blocks, kernel_best, _cut_best, blocks)


def _choose(
    blocks: Blocks, kernel: Callable[..., T], fallback: Callable[..., T], *args: Any
) -> T:
    """Calls `kernel` on a CUDA device, and `fallback` on any other."""
    if not fits_kernel(blocks):
        return fallback(*args)
    if blocks.method is not None and blocks.method.is_interpreted:
        return kernel(*args)
    # A mask is part of the scores, but no array.
    arrays, static = eqx.partition(args, eqx.is_array)

    def combine(function: Callable[..., T]) -> Callable[..., T]:
        return lambda arrays: function(*eqx.combine(arrays, static))

    return jax.lax.platform_dependent(
        arrays, cuda=combine(kernel), default=combine(fallback)
    )


def _total_with_gradient(blocks: Blocks, link: Link, values: Array) -> Array:
    """The sums of `total`, by kernels, with a gradient by kernels."""
    variables = _variables(blocks, values)
    numbers, static = eqx.partition(stop_gradient(blocks), eqx.is_inexact_array)
    constants, tree = jax.tree.flatten(numbers)
    n_variables, n = len(variables), len(variables) + len(constants)

    def take_arrays(function: Callable[..., T]) -> Callable[..., T]:
        def call(*arrays: Array) -> T:
            numbers = jax.tree.unflatten(tree, arrays[n_variables:n])
            blocks = _insert(eqx.combine(numbers, static), *arrays[:4])
            return function(blocks, link, arrays[4], *arrays[n:])

        return call

    def choose(kernel: Callable[..., T], fallback: Callable[..., T]) -> Any:
        pair = take_arrays(kernel), take_arrays(fallback)
        return functools.partial(_choose, blocks, *pair)

    function = WithGradient(
        value=choose(kernel_total, _cut_total),
        gradient=choose(kernel_gradient, _cut_gradient),
        reference=take_arrays(_cut_total),
        n_variables=n_variables,
    )
    return function(*variables, *constants)


def _variables(blocks: Blocks, values: Array) -> tuple[Array, ...]:
    """The arrays on which sums depend, in one dtype: vectors, offsets and values."""
    queries, keys = blocks.queries, blocks.keys
    q, k = require_vectors(queries.vectors), require_vectors(keys.vectors)
    arrays = q, queries.offset, k, keys.offset, values
    dtype = jnp.result_type(*arrays)
    return tuple(x.astype(dtype) for x in arrays)


def _insert(
    blocks: Blocks, q: Array, q_offset: Array, k: Array, k_offset: Array
) -> Blocks:
    """The blocks with other vectors and offsets."""
    queries = replace(blocks.queries, vectors=q, offset=q_offset)
    keys = replace(blocks.keys, vectors=k, offset=k_offset)
    return replace(blocks, queries=queries, keys=keys)


def _cut_total(blocks: Blocks, link: Link, values: Array) -> Array:
    cut_blocks = _cut_again(blocks)
    sums = stream_total(cut_blocks, link, cut_blocks.to_key_blocks(values[0]))
    return cut_blocks.join_blocks(sums)[None]


def _cut_gradient(
    blocks: Blocks, link: Link, values: Array, cotangent: Array
) -> tuple[Array, ...]:
    def sums(*arrays: Array) -> Array:
        return _cut_total(_insert(blocks, *arrays[:4]), link, arrays[4])

    return jax.vjp(sums, *_variables(blocks, values))[1](cotangent)


def _cut_largest(blocks: Blocks) -> Float[Array, "1 m"]:
    cut_blocks = _cut_again(blocks)
    return cut_blocks.join_blocks(stream_largest(cut_blocks)[:, None])


def _cut_best(blocks: Blocks) -> Float[Array, "1 rows m"]:
    cut_blocks = _cut_again(blocks)
    return cut_blocks.join_blocks(stream_best(cut_blocks))[None]


def _cut_again(blocks: Blocks) -> Blocks:
    """The same pairs, cut into blocks for XLA."""
    queries, keys = drop_axis(blocks.queries), drop_axis(blocks.keys)
    pairs = replace(blocks.pairs, queries=queries, keys=keys)
    itemsize = pairs.remainder.dtype.itemsize
    return cut(pairs, block_shape(jax.default_backend(), itemsize))
