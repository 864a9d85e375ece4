"""Compilation with the widest vectors of the machine, where it may be asked for."""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import equinox as eqx
import jax

from meanfield._array import is_concrete, is_tracing
from meanfield._programs import Programs

P = ParamSpec("P")
R = TypeVar("R")

# In the loops of exponentials twice as many numbers at once are up to 1.7 times as
# fast; processors without such vectors compute on halves, as they would have.
_WIDE = {"xla_cpu_prefer_vector_width": 512}


def compiler_options() -> dict[str, Any]:
    """What `jax.jit` has to be told so that sums are as fast as in `flow`.

    Options hold for whole programs, so that a function of this library cannot set them
    for the program that calls it. None are needed where there is an accelerator.

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


class Compiled(Generic[P, R]):
    """A function compiled for arrays, all else static; see `compiled`."""

    def __init__(self, fn: Callable[P, R]) -> None:
        compiler: Any = eqx.filter_jit
        self._part = compiler(fn)
        self._whole = compiler(fn, compiler_options=_WIDE)
        self._programs = Programs(self._part, self._whole)
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function gives."""
        if _traced((args, kwargs)):
            with all_digits():
                return self._part(*args, **kwargs)
        self._programs.make_room((args, kwargs))
        known = self.programs
        with all_digits():
            result = self._for((args, kwargs))(*args, **kwargs)
        if self.programs > known:
            return_memory()
        return result

    def has_program(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether there is a program for arguments like these."""
        return (args, kwargs) in self._programs

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The program for arguments like these, before it is compiled."""
        with all_digits():
            return self._for((args, kwargs)).lower(*args, **kwargs)

    @property
    def programs(self) -> int:
        """How many programs there are by now."""
        return len(self._programs)

    def _for(self, arguments: object) -> Any:
        alone = jax.default_backend() == "cpu" and not _traced(arguments)
        return self._whole if alone else self._part


def all_digits() -> contextlib.AbstractContextManager[None]:
    """Products of matrices round as sums do, where accelerators have coarser ones."""
    return jax.default_matmul_precision("highest")


def compiled(fn: Callable[P, R]) -> Compiled[P, R]:
    """`fn` compiled for arrays, all else static, as by `equinox.filter_jit`.

    Options of the compiler hold for whole programs: inside another `jit`, and under a
    derivative or a `vmap`, this is part of a program that others compile.

    Examples:
        >>> from meanfield.flows import compiled
        >>> square = compiled(lambda x: x**2)
        >>> print(square(jnp.array(3.0)), square(jnp.array(4.0)), square.programs)
        9.0 16.0 1
    """
    return Compiled(fn)


def outlined(fn: Callable[P, R]) -> Callable[P, R]:
    """The shapes of what `fn` gives, traced once for arguments of the same shapes."""

    @functools.partial(jax.jit, static_argnums=1)
    def whole(arrays: Any, rest: tuple[Any, ...]) -> R:
        leaves, structure = rest
        args, kwargs = eqx.combine(arrays, jax.tree.unflatten(structure, leaves))
        return cast(Any, fn)(*args, **kwargs)

    @functools.wraps(fn)
    def outline(*args: P.args, **kwargs: P.kwargs) -> R:
        arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        return cast(R, whole.eval_shape(arrays, (tuple(leaves), structure)))

    return outline


def return_memory() -> None:
    """Gives the system back what a compiler has freed: 55 MB, if the C library can."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)


def _traced(tree: object) -> bool:
    leaves = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
    return not all(map(is_concrete, leaves)) or is_tracing()
