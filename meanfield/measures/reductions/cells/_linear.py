"""A linear map for JAX that knows its transpose, and its batches one after another.

A loop that reads parts of one large array would be transposed to one that adds as
many arrays of its size. So the map and its transpose are a pair of primitives for JAX.
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


def transposes(name: str, there: Map, back: Map, *static: str) -> Map:
    """`there` as a function that is linear in its last argument, with its transpose.

    Args:
        name: in the text of programs.
        there: of arrays, of which the last is mapped, and of static keywords.
        back: its transpose, of the same arrays but the last, which it maps back.
        *static: the names of those keywords.
    """
    forward, backward = Primitive(name), Primitive(f"{name}_transposed")
    _register(forward, there, backward, static)
    _register(backward, back, forward, static)
    return forward.bind


def _register(
    primitive: Primitive, fn: Map, transpose: Primitive, static: tuple[str, ...]
) -> None:
    compiled = jax.jit(fn, static_argnames=static)
    primitive.def_impl(compiled)
    primitive.def_abstract_eval(_shape_by(fn))
    mlir.register_lowering(primitive, mlir.lower_fun(fn, multiple_results=False))
    batching.primitive_batchers[primitive] = _one_after_another(primitive)

    def transposed(cotangent: Array, *args: Any, **static: Any) -> tuple[Any, ...]:
        *others, _ = args
        mapped = transpose.bind(*others, ad.instantiate_zeros(cotangent), **static)
        return *[None] * len(others), mapped

    ad.primitive_transposes[primitive] = transposed


def _shape_by(fn: Map) -> Callable[..., Any]:
    def shape(*avals: Any, **static: Any) -> Any:
        structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        result = jax.eval_shape(lambda *args: fn(*args, **static), *structs)
        return ShapedArray(result.shape, result.dtype)

    return shape


def _one_after_another(primitive: Primitive) -> Callable[..., Any]:
    def batched(args: Any, dims: Any, **static: Any) -> tuple[Array, int]:
        moving = {
            i: jnp.moveaxis(arg, dim, 0)
            for i, (arg, dim) in enumerate(zip(args, dims, strict=True))
            if dim is not None
        }

        def one(parts: dict[int, Array]) -> Array:
            own = [parts.get(i, arg) for i, arg in enumerate(args)]
            return primitive.bind(*own, **static)

        return jax.lax.map(one, moving), 0

    return batched
