"""Functions with derivatives of their own, which no loop forgets.

A loop is parted, for its derivative, into what is computed once and what at every
turn, and there JAX drops the rule of a `custom_jvp` (so of a `custom_root`) and keeps
the function: a second derivative is then that of the body, of an eigendecomposition or
of a constant, and nothing says so. A primitive is kept, with its rule.
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


# What `help` shows of a function; types are left to the function itself.
DESCRIPTION = "__module__", "__name__", "__qualname__", "__doc__"


def ruled(rule: Rule) -> Callable[[Function], Function]:
    """Gives a function of arrays, whose value is one array, the derivative `rule`.

    The rule makes the tangent of the value from the value itself, the arguments and
    their tangents, linearly in the latter; integers have `None` for theirs.
    Derivatives of any order and in any mode, and `vmap`, follow from it.
    """

    def given(function: Function) -> Function:
        bound = lambda *args: _ruled.bind(
            *map(jnp.asarray, args), function=function, rule=rule
        )
        return functools.update_wrapper(bound, function, DESCRIPTION)

    return given


_ruled = Primitive("ruled")


def _value(*args: Array, function: Function, rule: Rule) -> Array:
    del rule
    # A program may be made when who asked for all digits has left.
    with jax.default_matmul_precision("highest"):
        return function(*args)


def _abstract(*args: ShapedArray, function: Function, rule: Rule) -> ShapedArray:
    del rule
    value = jax.eval_shape(function, *args)
    return ShapedArray(value.shape, value.dtype)


def _tangent(
    primals: tuple, tangents: tuple, *, function: Function, rule: Rule
) -> tuple[Array, Array]:
    at = tuple(map(jnp.asarray, primals))  # constants of a trace may be NumPy's
    moved = tuple(
        jnp.asarray(ad.instantiate_zeros(tangent))
        if jnp.issubdtype(primal.dtype, jnp.inexact)
        else None
        for primal, tangent in zip(at, tangents, strict=True)
    )
    value = _ruled.bind(*at, function=function, rule=rule)
    return value, rule(value, at, moved)


def _batched(
    args: tuple, axes: tuple, *, function: Function, rule: Rule
) -> tuple[Array, int]:
    many = jax.vmap(function, in_axes=axes)
    value = _ruled.bind(
        *args, function=many, rule=jax.vmap(rule, in_axes=(0, axes, axes))
    )
    return value, 0


_ruled.def_impl(_value)
_ruled.def_abstract_eval(_abstract)
mlir.register_lowering(_ruled, mlir.lower_fun(_value, multiple_results=False))
ad.primitive_jvps[_ruled] = _tangent
batching.primitive_batchers[_ruled] = _batched
