"""Decompositions and linear solves by LAPACK, in batches that XLA does not split.

Since JAX 0.10, an XLA thread that gets a large batch of LAPACK calls splits the batch
among the threads of its pool, and waits for them. If all threads of the pool wait in
this way, in one program or in several, they wait forever. A machine with two cores has
two such threads. JAX after version 0.11.0 splits no batches.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, PyTree

R = TypeVar("R", bound=PyTree[Array])
MAX_BATCH_FLOPS = 200_000  # JAX splits batches that need more operations


def limit_batches(operation: Callable[..., R]) -> Callable[..., R]:
    """Wraps a matrix operation so that `vmap` computes its batches in small chunks.

    On accelerators, where XLA does not split batches among threads, a batch is computed
    as a whole. Reverse-mode differentiation is not supported: stop gradients before the
    call.

    Args:
        operation: a function of arrays, each with at least one axis; the first array is
            a square or nearly square matrix.
    """

    @custom_vmap
    def call_batch(*stacks: Array) -> R:
        n, r, *_ = stacks[0].shape
        n_columns = max(math.prod(stack.shape[2:]) for stack in stacks)
        # The divisor is at least the number of operations that JAX counts per matrix.
        size = max(1, MAX_BATCH_FLOPS // max(1, 10 * r**2 * max(r, n_columns)))
        if n <= size or jax.default_backend() != "cpu":
            return jax.vmap(operation)(*stacks)
        return jax.lax.map(lambda parts: operation(*parts), stacks, batch_size=size)

    @call_batch.def_vmap
    def _(n: int, has_axis: list[bool], *stacks: Array) -> tuple[R, PyTree[bool]]:
        arrays = _stack(n, has_axis, stacks)
        result = call_batch(*(a.reshape(-1, *a.shape[2:]) for a in arrays))
        result = jax.tree.map(lambda a: a.reshape(n, -1, *a.shape[1:]), result)
        return result, jax.tree.map(lambda _: True, result)

    def call(*arrays: Array) -> R:
        result = call_batch(*(array[None] for array in arrays))
        return jax.tree.map(lambda leaf: leaf[0], result)

    return call


def _stack(n: int, has_axis: list[bool], arrays: tuple[Array, ...]) -> list[Array]:
    """Gives each array a leading axis of length `n`, unless it already has one."""
    return [
        array if is_stack else jnp.broadcast_to(array, (n, *array.shape))
        for array, is_stack in zip(arrays, has_axis, strict=True)
    ]


eigh = limit_batches(lambda S: tuple(jnp.linalg.eigh(S)))
eigvalsh = limit_batches(jnp.linalg.eigvalsh)
svd = limit_batches(lambda M: tuple(jnp.linalg.svd(M)))
solve = limit_batches(jnp.linalg.solve)
solve_positive = limit_batches(
    lambda G, u: jax.scipy.linalg.solve(G, u, assume_a="pos")
)
