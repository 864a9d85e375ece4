"""Programs for what is called outside of any: one for each shape, not for each call.

JAX compiles a loop or a branch that is met outside of `jit` each time it is met, since
its body is a new function each time. It keeps programs of thousands of shapes, which is
more than a process has memory maps for: they are dropped before.
"""

import functools
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from ._array import is_tracing

P = ParamSpec("P")
R = TypeVar("R")

MAPS = Path("/proc/self/maps")
MANY_MAPS = 20_000
FEW_PROGRAMS = 8  # of one function; so many are kept whatever else holds memory maps


def compile_once(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn` as one program where it is called outside of any, kept for later calls.

    Within a program it is part of that. Arguments are trees of arrays, and of things
    that are compared by their hash; what `fn` does besides its result it does once.
    """
    program = eqx.filter_jit(fn)
    programs = Programs(program)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_tracing():
            return fn(*args, **kwargs)
        programs.make_room((args, kwargs))
        return program(*args, **kwargs)

    return call


class Programs:
    """The programs of a function, and for which arguments they are."""

    def __init__(self, *jitted: Any) -> None:
        """Of functions that `equinox.filter_jit` gave."""
        self._jitted = jitted
        self._signatures: set[Hashable] = set()

    def __len__(self) -> int:
        return sum(each._cached._cache_size() for each in self._jitted)

    def __contains__(self, arguments: object) -> bool:
        if not len(self):  # JAX has dropped them
            self._signatures.clear()
        return signature(arguments) in self._signatures

    def make_room(self, arguments: object) -> None:
        """Drops programs if there is none for `arguments` and no room for one more."""
        if arguments in self:
            return
        if len(self) >= FEW_PROGRAMS and forget_programs():
            self._signatures.clear()
        self._signatures.add(signature(arguments))


def signature(tree: object) -> Hashable:
    """What programs are compiled for: shapes of arrays, and all else.

    Examples:
        >>> from meanfield.flows import signature
        >>> (
        ...     signature(jnp.zeros(3)) == signature(jnp.ones(3)),
        ...     signature(jnp.zeros(4)) == signature(jnp.ones(3)),
        ... )
        (True, False)
    """
    leaves, structure = jax.tree.flatten(tree)
    shape = lambda leaf: (leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf
    return structure, tuple(map(shape, leaves))


def forget_programs() -> bool:
    """Drops all compiled programs once a process has a third of the maps it may have.

    Each loop of a program holds three memory maps, and the compiler ends the process
    with a segmentation fault where Linux, by default, gives no more than 65 530.

    Returns:
        Whether they were dropped.
    """
    try:
        n_maps = MAPS.read_bytes().count(b"\n")
    except OSError:
        return False  # not Linux: no such table, no such limit
    if n_maps > MANY_MAPS:
        jax.clear_caches()
    return n_maps > MANY_MAPS
