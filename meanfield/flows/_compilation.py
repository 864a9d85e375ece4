"""Compilation of whole programs, with options that suit their work."""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import equinox as eqx
import jax

from meanfield._array import is_concrete, is_tracing
from meanfield._executables import run_stored
from meanfield._programs import Programs, quick_flags
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField
from meanfield.measures import AbstractMeasure

P = ParamSpec("P")
R = TypeVar("R")
Level = Callable[..., int | None]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

# Loops over exponentials run up to 1.7 times as fast with 512-bit vectors as with the
# default of 256 bits. A processor without 512-bit vectors splits each vector into two
# halves and loses no time.
_WIDE = {"xla_cpu_prefer_vector_width": 512}
# Small programs run in milliseconds but take seconds to compile, so they are compiled
# with less optimisation: at level 0 if no array has more work than `_TINY` operations.
_TINY = 1024
# At level 1 if no array has more entries than the limit for its longest vector.
# Products of vectors of more than four entries take twice as long then.
_LIMITS = {4: 4096, 32: 512}


def compiler_options() -> dict[str, Any]:
    """Options for `jax.jit` that make sums as fast as they are in `flow`.

    Compiler options apply to whole programs, so a function of this library cannot set
    them for the program that calls it. Accelerators need none.

    Examples:
        >>> import meanfield
        >>> from meanfield import Points, attentions
        >>> one, x = jnp.eye(1), jnp.array([[0.0], [1.0]])
        >>> softmax = attentions["softmax"](one, one, one)
        >>> def velocity(x):
        ...     mu = Points.uniform(x)
        ...     return softmax.field(0.0, mu)(mu.tokens)
        >>> fast = jax.jit(velocity, compiler_options=meanfield.compiler_options())
        >>> print(fast(x).ravel())
        [0.5    0.7311]
    """
    return dict(_WIDE) if jax.default_backend() == "cpu" else {}


class CompiledFunction(Generic[P, R]):
    """A compiled function of arrays and static arguments; see `compile_function`."""

    def __init__(self, fn: Callable[P, R], level: Level) -> None:
        compiler: Any = eqx.filter_jit
        self._fn, self._level = fn, level
        self._part = compiler(fn)
        self._whole = compiler(fn, compiler_options=_WIDE)
        self._quick = {
            level: compiler(fn, compiler_options=_options(level)) for level in (0, 1)
        }
        self._programs = Programs(fn, self._part, self._whole, *self._quick.values())
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, compiling it first for arguments of a new shape."""
        if is_traced((args, kwargs)):
            with full_precision():
                return self._part(*args, **kwargs)
        self._programs.make_room((args, kwargs))
        n_programs = self.programs
        with full_precision():
            result = self._run((args, kwargs))
        if self.programs > n_programs:
            return_memory()
        return result

    def has_program(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a program for arguments of these shapes has been compiled."""
        return (args, kwargs) in self._programs

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The program for arguments of these shapes, lowered but not compiled."""
        with full_precision():
            return self._select_program((args, kwargs))[0].lower(*args, **kwargs)

    @property
    def programs(self) -> int:
        """Number of programs compiled so far."""
        return len(self._programs)

    def _run(self, arguments: Arguments) -> R:
        program, options = self._select_program(arguments)
        is_stored, result = run_stored(self._fn, arguments, options)
        args, kwargs = arguments
        return result if is_stored else program(*args, **kwargs)

    def _select_program(self, arguments: Arguments) -> tuple[Any, dict[str, Any]]:
        """The compiled function for these arguments, and its compiler options."""
        if jax.default_backend() != "cpu" or is_traced(arguments):
            return self._part, {}
        args, kwargs = arguments
        level = self._level(*args, **kwargs)
        program = self._whole if level is None else self._quick[level]
        return program, _options(level)


def _options(level: int | None) -> dict[str, Any]:
    """Compiler options on a CPU, for a program that is not part of another one."""
    return _WIDE if level is None else _WIDE | quick_flags(level)


def optimisation_level(*args: object, **kwargs: object) -> int | None:
    """The optimisation level for these arguments; `None` for the default of XLA.

    With little work, a program compiles for longer than it runs.
    """
    leaves = [leaf for leaf in jax.tree.leaves((args, kwargs)) if eqx.is_array(leaf)]
    # Operations of one velocity of tokens, or of one product of matrices.
    work = (leaf.size * max(leaf.shape[-2:], default=1) for leaf in leaves)
    if max(work, default=0) <= _TINY:
        return 0
    size = max(leaf.size for leaf in leaves)
    longest = max((leaf.shape[-1] for leaf in leaves if leaf.ndim > 1), default=0)
    limits = (limit for vector, limit in _LIMITS.items() if longest <= vector)
    return 1 if size <= next(limits, 0) else None


def full_precision() -> contextlib.AbstractContextManager[None]:
    """Context in which matrix products have full precision, also on accelerators."""
    return jax.default_matmul_precision("highest")


def compile_function(
    fn: Callable[P, R], level: Level = optimisation_level
) -> CompiledFunction[P, R]:
    """Compiles `fn` like `equinox.filter_jit`, with compiler options for this machine.

    Compiler options apply to whole programs: inside another `jit`, a derivative or a
    `vmap`, `fn` is part of a larger program, which is compiled without them.

    Args:
        fn: the function.
        level: function that maps the arguments to XLA's optimisation level, 0 or 1,
            or to `None` for full optimisation.

    Examples:
        >>> from meanfield.flows import compile_function
        >>> square = compile_function(lambda x: x**2)
        >>> print(square(jnp.array(3.0)), square(jnp.array(4.0)), square.programs)
        9.0 16.0 1
    """
    return CompiledFunction(fn, level)


@eqx.filter_jit  # a program contains several copies of a field, but traces only one
def field_at(dynamics: AbstractDynamics, t: Time, mu: AbstractMeasure) -> AbstractField:
    """The field of `mu` at time `t`."""
    return dynamics.field(t, mu)


def eval_shapes(fn: Callable[P, R]) -> Callable[P, R]:
    """Wraps `fn` to return the shapes of its result, cached by argument shapes."""

    @functools.partial(jax.jit, static_argnums=1)
    def whole(arrays: Any, rest: tuple[Any, ...]) -> R:
        leaves, structure = rest
        args, kwargs = eqx.combine(arrays, jax.tree.unflatten(structure, leaves))
        return cast(Any, fn)(*args, **kwargs)

    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        return cast(R, whole.eval_shape(arrays, (tuple(leaves), structure)))

    return wrapper


def return_memory() -> None:
    """Returns to the system the memory that a compilation has freed, about 55 MB."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # only glibc has `malloc_trim`
            ctypes.CDLL(None).malloc_trim(0)


def is_traced(tree: object) -> bool:
    """Whether any array in a tree is traced, or the caller is."""
    leaves = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
    return not all(map(is_concrete, leaves)) or is_tracing()
