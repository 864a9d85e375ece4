"""Compiled programs: fast compilation, once per shape, within a memory limit.

Outside `jit`, JAX compiles a loop or a branch anew at each call, since its body is a
new function each time. JAX caches programs for thousands of shapes, which can use up
the memory maps of a process; this module clears the caches before that happens.
"""

import functools
import os
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from ._array import is_tracing
from ._executables import count_executables, forget_executables

P = ParamSpec("P")
R = TypeVar("R")

MAPS = Path("/proc/self/maps")
MANY_MAPS = 20_000
# Programs compile faster if their code is generated in one part, and with the older
# loop fusion of JAX 0.10, which later versions lack.
_LEGACY_FLAGS = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
FEW_PROGRAMS = 8  # a function with fewer programs never clears the caches


def quick_flags(level: int = 0) -> dict[str, int | bool]:
    """XLA flags, by name, that make programs compile faster but perhaps run slower.

    `level` is the optimisation level, from 0 to 3. Flags that the user has set in
    `XLA_FLAGS` are left out.
    """
    legacy = _LEGACY_FLAGS if jax.__version__.startswith("0.10.") else {}
    flags = {"xla_backend_optimization_level": level} | legacy
    users_flags = os.environ.get("XLA_FLAGS", "")
    return {name: flag for name, flag in flags.items() if name not in users_flags}


def fast_compilation() -> str:
    """A value of `XLA_FLAGS` that reduces the optimisation of all programs."""
    return " ".join(
        f"--{key}={str(flag).lower()}" for key, flag in quick_flags().items()
    )


def compile_once(fn: Callable[P, R]) -> Callable[P, R]:
    """Wraps `fn` in a `jit` that compiles it once for each signature.

    Inside another `jit`, `fn` itself is called. Arguments are pytrees of arrays and of
    hashable objects. Side effects of `fn` happen only while it is traced.
    """
    program = eqx.filter_jit(fn)
    programs = Programs(fn, program)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_tracing():
            return fn(*args, **kwargs)
        programs.make_room((args, kwargs))
        return program(*args, **kwargs)

    return call


class Programs:
    """The compiled programs of a function, and signatures of their arguments.

    Args:
        fn: the function.
        functions: results of `equinox.filter_jit(fn)`, with various compiler options.
    """

    def __init__(self, fn: Callable[..., Any], *functions: Any) -> None:
        self._fn = fn
        # Equinox shares one cache between functions with the same options.
        self._caches = {
            id(function._cached): function._cached for function in functions
        }
        self._signatures: set[Hashable] = set()

    def __len__(self) -> int:
        n_jitted = sum(cache._cache_size() for cache in self._caches.values())
        return n_jitted + count_executables(self._fn)

    def __contains__(self, arguments: object) -> bool:
        if not len(self):  # the caches of JAX have been cleared
            self._signatures.clear()
        return signature(arguments) in self._signatures

    def make_room(self, arguments: object) -> None:
        """Clears the caches if `arguments` are new and memory maps are running low."""
        if arguments in self:
            return
        if len(self) >= FEW_PROGRAMS and forget_programs():
            self._signatures.clear()
        self._signatures.add(signature(arguments))


def signature(tree: object) -> Hashable:
    """Key of a compiled program: array shapes and dtypes, and all other leaves.

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
    """Clears JAX's caches if the process uses a third of its memory maps.

    Each loop of a program holds three memory maps. Linux allows a process 65 530 by
    default, and the compiler crashes with a segmentation fault beyond that.

    Returns:
        Whether the caches were cleared.
    """
    try:
        n_maps = MAPS.read_bytes().count(b"\n")
    except OSError:
        return False  # this file and the limit exist on Linux only
    if n_maps > MANY_MAPS:
        jax.clear_caches()
        forget_executables()
    return n_maps > MANY_MAPS
