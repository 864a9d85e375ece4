"""Linear maps with an explicit transpose, batched sequentially.

JAX would transpose a loop that reads parts of a large array into a loop that adds
arrays of the full size. So a map and its transpose are registered as two primitives.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

Map = Callable[..., Array]


def define_linear_map(name: str, fn: Map, transpose_fn: Map, *static: str) -> Map:
    """Defines a JAX primitive that is linear in its last array, with its transpose.

    Args:
        name: name of the primitive in printed programs.
        fn: function of arrays and static keywords, linear in the last array.
        transpose_fn: its transpose in the last array; takes the same other arguments.
        *static: names of the static keywords.
    """
    forward, backward = Primitive(name), Primitive(f"{name}_transposed")
    _register(forward, fn, backward, static)
    _register(backward, transpose_fn, forward, static)
    return forward.bind


def _register(
    primitive: Primitive, fn: Map, transpose: Primitive, static: tuple[str, ...]
) -> None:
    compiled_fn = jax.jit(fn, static_argnames=static)
    primitive.def_impl(compiled_fn)
    primitive.def_abstract_eval(_shape_by(fn))
    mlir.register_lowering(primitive, mlir.lower_fun(fn, multiple_results=False))
    batching.primitive_batchers[primitive] = _sequential_batching(primitive)

    def transpose_rule(cotangent: Array, *args: Any, **static: Any) -> tuple[Any, ...]:
        *arrays, _ = args
        result = transpose.bind(*arrays, ad.instantiate_zeros(cotangent), **static)
        return *[None] * len(arrays), result

    ad.primitive_transposes[primitive] = transpose_rule


def _shape_by(fn: Map) -> Callable[..., Any]:
    def shape(*avals: Any, **static: Any) -> Any:
        structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        result = jax.eval_shape(lambda *args: fn(*args, **static), *structs)
        return ShapedArray(result.shape, result.dtype)

    return shape


def _sequential_batching(primitive: Primitive) -> Callable[..., Any]:
    def batching_rule(args: Any, dims: Any, **static: Any) -> tuple[Array, int]:
        batches = {
            i: jnp.moveaxis(arg, dim, 0)
            for i, (arg, dim) in enumerate(zip(args, dims, strict=True))
            if dim is not None
        }

        def bind_member(parts: dict[int, Array]) -> Array:
            member_args = [parts.get(i, arg) for i, arg in enumerate(args)]
            return primitive.bind(*member_args, **static)

        return jax.lax.map(bind_member, batches), 0

    return batching_rule
