"""Programs for what is called outside of any: one for each shape, not for each call.

JAX compiles a loop or a branch that is met outside of `jit` each time it is met, since
its body is a new function each time.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx

from ._array import is_tracing

P = ParamSpec("P")
R = TypeVar("R")


def compile_once(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn` as one program where it is called outside of any, kept for later calls.

    Within a program it is part of that. Arguments are trees of arrays, and of things
    that are compared by their hash; what `fn` does besides its result it does once.
    """
    program = eqx.filter_jit(fn)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return (fn if is_tracing() else program)(*args, **kwargs)

    return call
