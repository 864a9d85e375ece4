"""Custom derivatives that JAX also applies to functions inside loops.

To differentiate a loop, JAX splits its body into a loop-invariant part and the rest.
The split drops the rule of a `custom_jvp` (and so of a `custom_root`) but keeps the
function itself. A second derivative then silently differentiates the function's own
code. That gives zero for an argument that the code ignores, and no finite value for an
eigendecomposition with a repeated eigenvalue. A JAX primitive keeps its rule.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def _value(*args: Array, function: Function, **_: object) -> Array:
    # Compilation may happen after the caller's own precision context has ended.
    with jax.default_matmul_precision("highest"):
        return function(*args)


def _abstract(*args: ShapedArray, function: Function, **_: object) -> ShapedArray:
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


def _transpose(cotangent: Array, *args: Any, function: Function, rule: Rule) -> list:
    """Cotangents of the unknown arguments, in which `function` is linear.

    A linear function is its own derivative, for example at zero.
    """
    places = [i for i, x in enumerate(args) if ad.is_undefined_primal(x)]
    arrays = list(args)
    for i in places:
        arrays[i] = jnp.zeros(args[i].aval.shape, args[i].aval.dtype)
    value = _derivative_primitive.bind(*arrays, function=function, rule=rule)
    no_change = [
        jnp.zeros_like(x) if jnp.issubdtype(x.dtype, jnp.inexact) else None
        for x in arrays
    ]

    def change(*changes: Array) -> Array:
        tangents = list(no_change)
        for i, x in zip(places, changes, strict=True):
            tangents[i] = x
        return rule(value, tuple(arrays), tuple(tangents))

    results: list = [None] * len(args)
    zeros = [arrays[i] for i in places]
    change_back = jax.linear_transpose(change, *zeros)
    cotangents = change_back(ad.instantiate_zeros(cotangent))
    for i, x in zip(places, cotangents, strict=True):
        results[i] = x
    return results


def _batch_rule(
    args: tuple, axes: tuple, *, function: Function, rule: Rule
) -> tuple[Array, int]:
    batched_function = jax.vmap(function, in_axes=axes)
    value = _derivative_primitive.bind(
        *args, function=batched_function, rule=jax.vmap(rule, in_axes=(0, axes, axes))
    )
    return value, 0


def linear_map(
    forward: Function, transpose: Callable[..., tuple[Array, ...]], n_fixed: int
) -> Function:
    """A function that is linear in some arguments, with a transpose of its own.

    `forward(*fixed, *linear)` returns an array. `transpose(*fixed, cotangent)` returns
    the cotangents of the linear arguments, and need not be computed like `forward`.
    """
    return functools.partial(
        _linear_primitive.bind, function=forward, transpose=transpose, n_fixed=n_fixed
    )


_linear_primitive = Primitive("linear_map")


def _linear_tangent(
    primals: tuple, tangents: tuple, *, function: Function, **options: Any
) -> tuple[Array, Array]:
    n_fixed = options["n_fixed"]
    bind = functools.partial(_linear_primitive.bind, function=function, **options)
    changes = tuple(map(ad.instantiate_zeros, tangents))
    tangent = bind(*primals[:n_fixed], *changes[n_fixed:])
    if any(type(change) is not ad.Zero for change in tangents[:n_fixed]):
        no_change = map(jnp.zeros_like, changes[n_fixed:])
        fixed_changes = *changes[:n_fixed], *no_change
        tangent = tangent + jax.jvp(function, primals, fixed_changes)[1]
    return bind(*primals), tangent


def _linear_transpose(
    cotangent: Array,
    *args: Any,
    function: Function,
    transpose: Callable[..., tuple[Array, ...]],
    n_fixed: int,
) -> list:
    del function
    cotangents = transpose(*args[:n_fixed], ad.instantiate_zeros(cotangent))
    pairs = zip(args[n_fixed:], cotangents, strict=True)
    results = [c if ad.is_undefined_primal(x) else None for x, c in pairs]
    return [None] * n_fixed + results


def _batch_linear(
    args: tuple,
    axes: tuple,
    *,
    function: Function,
    transpose: Callable[..., tuple[Array, ...]],
    n_fixed: int,
) -> tuple[Array, int]:
    size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    fixed_axes = axes[:n_fixed]
    pairs = zip(args[n_fixed:], axes[n_fixed:], strict=True)
    linear = [batching.bdim_at_front(x, axis, size) for x, axis in pairs]
    batched_axes = (*fixed_axes, *[0] * len(linear))
    batched_map = linear_map(
        jax.vmap(function, in_axes=batched_axes),
        jax.vmap(transpose, in_axes=(*fixed_axes, 0)),
        n_fixed,
    )
    return batched_map(*args[:n_fixed], *linear), 0


def _register(
    primitive: Primitive, tangent: Callable, transpose: Callable, batch: Callable
) -> None:
    """Registers the rules of a primitive whose value is that of `function`."""
    primitive.def_impl(_value)
    primitive.def_abstract_eval(_abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(_value, multiple_results=False))
    ad.primitive_jvps[primitive] = tangent
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch


_register(_derivative_primitive, _tangent, _transpose, _batch_rule)
_register(_linear_primitive, _linear_tangent, _linear_transpose, _batch_linear)


@dataclass(frozen=True)
class WithGradient:
    """A function of arrays with a gradient of its own.

    The first derivative in reverse mode is `gradient`; all others, of any order, are
    those of `reference`.

    Attributes:
        value: the function; it returns one array.
        gradient: takes the arguments and the cotangent of the value, and returns the
            cotangents of the variables.
        reference: another implementation of `value`, which JAX can differentiate.
        n_variables: number of arguments that have derivatives; they come first.
    """

    value: Function
    gradient: Callable[..., tuple[Array, ...]]
    reference: Function
    n_variables: int

    def __call__(self, *arrays: Array) -> Array:
        """The value."""
        return custom_derivative(self._change)(self.value)(*arrays)

    def _change(self, _: Array, arrays: tuple, tangents: tuple) -> Array:
        change = linear_map(self._forward, self._backward, len(arrays))
        return change(*arrays, *tangents[: self.n_variables])

    def _forward(self, *arrays: Array) -> Array:
        """The change of the value, from the arguments and changes of the variables."""
        n = self.n_variables
        return jax.jvp(self._fix(arrays[n:-n]), arrays[:n], arrays[-n:])[1]

    def _backward(self, *arrays: Array) -> tuple[Array, ...]:
        """The cotangents of the variables, from the arguments and a cotangent."""
        gradient = custom_derivative(self._change_of_gradient)(self._joined_gradient)
        numbers = gradient(*arrays)
        variables = arrays[: self.n_variables]
        ends = itertools.accumulate(x.size for x in variables)
        parts = jnp.split(numbers, list(ends)[:-1])
        return tuple(
            part.reshape(x.shape) for part, x in zip(parts, variables, strict=True)
        )

    def _joined_gradient(self, *arrays: Array) -> Array:
        return _join(self.gradient(*arrays))

    def _change_of_gradient(self, _: Array, arrays: tuple, tangents: tuple) -> Array:
        return jax.jvp(self._reference_gradient, arrays, tangents)[1]

    def _reference_gradient(self, *arrays: Array) -> Array:
        n = self.n_variables
        backward = jax.vjp(self._fix(arrays[n:-1]), *arrays[:n])[1]
        return _join(backward(arrays[-1]))

    def _fix(self, constants: tuple[Array, ...]) -> Function:
        return lambda *variables: self.reference(*variables, *constants)


def _join(arrays: tuple[Array, ...]) -> Array:
    return jnp.concatenate([x.ravel() for x in arrays])
