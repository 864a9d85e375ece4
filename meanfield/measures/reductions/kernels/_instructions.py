"""Functions that act on single numbers in kernels."""

import struct
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import triton
from jaxtyping import Array

from ._exp2 import DOUBLE_COEFFICIENTS, LN2, exp2
from ._method import Method


def multiply_add(method: Method, a: Array, b: Array, c: Array) -> Array:
    """The sum `a b + c`; Triton would round the product before it adds."""
    if method.is_interpreted:
        return a * b + c
    return _instruct(f"fma.rn.f{8 * c.dtype.itemsize} $0, $1, $2, $3;", a, b, c)


def link_value(method: Method, scores: Array) -> Array:
    """The link of scores."""
    if method.link is exp2 and not method.is_interpreted:
        return _instruct(EXP2[scores.dtype.itemsize], scores)
    return method.link(scores)


def link_slope(method: Method, scores: Array, value: Array) -> Array:
    """The derivative of the link at scores with a known value."""
    if method.link is exp2:
        return LN2 * value
    return jax.jvp(method.link, (scores,), (jnp.ones_like(scores),))[1]


def is_entrywise(
    link: Callable[..., Array], dtype: jnp.dtype, n_arguments: int = 1
) -> bool:
    """Whether a kernel can evaluate a link and its slope, or a mask of two numbers."""
    if link is exp2:
        return True
    if any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(link)):
        return False
    number = jax.ShapeDtypeStruct((1, 1), dtype)
    if n_arguments == 2:
        return _has_entrywise_steps(jax.make_jaxpr(link)(number, number).jaxpr)
    if jax.eval_shape(link, number).dtype != number.dtype:
        return False  # such as a step function with integer values
    slope = lambda x: jax.jvp(link, (x,), (x,))
    return _has_entrywise_steps(jax.make_jaxpr(slope)(number).jaxpr)


def _has_entrywise_steps(program: Any) -> bool:
    """Whether Triton applies all operations of a program to single numbers."""
    programs = [
        getattr(value, "jaxpr", value)
        for equation in program.eqns
        for value in equation.params.values()
        if hasattr(value, "eqns")
    ]
    return (
        not program.constvars
        and all(e.primitive.name in _ENTRYWISE for e in program.eqns)
        and all(map(_has_entrywise_steps, programs))
    )


def _instruct(assembly: str, *numbers: Array) -> Array:
    """Applies PTX instructions to the numbers of arrays."""
    shape = jnp.broadcast_shapes(*(x.shape for x in numbers))
    dtype = numbers[0].dtype
    kind = "f" if dtype.itemsize == 4 else "d"
    (result,) = triton.elementwise_inline_asm(
        assembly,
        args=[jnp.broadcast_to(x, shape) for x in numbers],
        constraints=",".join([f"={kind}", *[kind] * len(numbers)]),
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(shape, dtype)],
    )
    return result


def _exp2_of_doubles() -> str:
    """PTX instructions of `exp2`: the polynomial, and an exponent added as bits."""
    shift = 1.5 * 2.0**52  # adding it rounds to whole numbers, in the lowest bits
    *lower, top = DOUBLE_COEFFICIENTS
    steps = [f"fma.rn.f64 p, p, f, {_bits(c)};" for c in reversed(lower)]
    lines = (
        "{ .reg .pred small; .reg .f64 x, w, f, p; .reg .b32 low, high, k;",
        f"setp.lt.f64 small, $1, {_bits(-1022.0)};",
        f"selp.f64 x, {_bits(-1022.0)}, $1, small;",
        f"add.rn.f64 w, x, {_bits(shift)};",
        f"mov.b64 {{k, high}}, w; sub.rn.f64 w, w, {_bits(shift)};",
        f"sub.rn.f64 f, x, w; mov.f64 p, {_bits(top)};",
        *steps,
        "shl.b32 k, k, 20; mov.b64 {low, high}, p; add.s32 high, high, k;",
        "mov.b64 $0, {low, high}; }",
    )
    return " ".join(lines)


def _bits(x: float) -> str:
    return f"0d{struct.pack('>d', x).hex().upper()}"


EXP2 = {4: "ex2.approx.ftz.f32 $0, $1;", 8: _exp2_of_doubles()}
_ENTRYWISE = frozenset((
    "add", "sub", "mul", "div", "neg", "abs", "max", "min", "integer_pow", "square",
    "exp", "exp2", "log", "log1p", "tanh", "logistic", "sqrt", "sign", "ceil", "floor",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select_n", "add_any",
    "convert_element_type", "broadcast_in_dim", "jit", "pjit", "custom_jvp_call",
    "stop_gradient",
))  # fmt: skip
