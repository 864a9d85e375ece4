"""Custom derivatives that JAX also applies to functions inside loops.

To differentiate a loop, JAX splits its body into a loop-invariant part and the rest.
The split drops the rule of a `custom_jvp` (and so of a `custom_root`) but keeps the
function itself. A second derivative then silently differentiates the function's own
code. That gives zero for an argument that the code ignores, and no finite value for an
eigendecomposition with a repeated eigenvalue. A JAX primitive keeps its rule.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

Function = Callable[..., Array]
Rule = Callable[[Array, tuple[Array, ...], tuple[Array | None, ...]], Array]


# These attributes are copied so that `help` shows them; annotations are not copied.
DESCRIPTION = "__module__", "__name__", "__qualname__", "__doc__"


def custom_derivative(rule: Rule) -> Callable[[Function], Function]:
    """Decorator that attaches a derivative to a function from arrays to one array.

    `rule(value, arguments, tangents)` returns the tangent of the value and must be
    linear in `tangents`, whose entries are `None` for integer arguments. The rule gives
    derivatives of any order, in forward and reverse mode, and also inside `vmap`.
    """

    def decorate(function: Function) -> Function:
        bound = lambda *args: _derivative_primitive.bind(
            *map(jnp.asarray, args), function=function, rule=rule
        )
        return functools.update_wrapper(bound, function, DESCRIPTION)

    return decorate


_derivative_primitive = Primitive("ruled")


def _value(*args: Array, function: Function, rule: Rule) -> Array:
    del rule
    # Compilation may happen after the caller's own precision context has ended.
    with jax.default_matmul_precision("highest"):
        return function(*args)


def _abstract(*args: ShapedArray, function: Function, rule: Rule) -> ShapedArray:
    del rule
    value = jax.eval_shape(function, *args)
    return ShapedArray(value.shape, value.dtype)


def _tangent(
    primals: tuple, tangents: tuple, *, function: Function, rule: Rule
) -> tuple[Array, Array]:
    arrays = tuple(map(jnp.asarray, primals))  # traced constants may be NumPy arrays
    tangent_arrays = tuple(
        jnp.asarray(ad.instantiate_zeros(tangent))
        if jnp.issubdtype(primal.dtype, jnp.inexact)
        else None
        for primal, tangent in zip(arrays, tangents, strict=True)
    )
    value = _derivative_primitive.bind(*arrays, function=function, rule=rule)
    return value, rule(value, arrays, tangent_arrays)


def _batch_rule(
    args: tuple, axes: tuple, *, function: Function, rule: Rule
) -> tuple[Array, int]:
    batched_function = jax.vmap(function, in_axes=axes)
    value = _derivative_primitive.bind(
        *args, function=batched_function, rule=jax.vmap(rule, in_axes=(0, axes, axes))
    )
    return value, 0


_derivative_primitive.def_impl(_value)
_derivative_primitive.def_abstract_eval(_abstract)
mlir.register_lowering(
    _derivative_primitive, mlir.lower_fun(_value, multiple_results=False)
)
ad.primitive_jvps[_derivative_primitive] = _tangent
batching.primitive_batchers[_derivative_primitive] = _batch_rule
