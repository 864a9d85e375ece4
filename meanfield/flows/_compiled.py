"""Compilation with the widest vectors of the machine, where it may be asked for."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield._array import is_concrete

P = ParamSpec("P")
R = TypeVar("R")

# In the loops of exponentials twice as many numbers at once are up to 1.7 times as
# fast; processors without such vectors compute on halves, as they would have.
WIDE = {"xla_cpu_prefer_vector_width": 512}


def compiled(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn` compiled for arrays, all else static, as by `equinox.filter_jit`.

    Options of the compiler hold for whole programs: inside another `jit`, and under a
    derivative or a `vmap`, this is part of a program that others compile.
    """
    compiler: Any = eqx.filter_jit
    part, whole = compiler(fn), compiler(fn, compiler_options=WIDE)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        alone = jax.default_backend() == "cpu" and not _traced((args, kwargs))
        return (whole if alone else part)(*args, **kwargs)

    return call


def _traced(tree: object) -> bool:
    leaves = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
    return not all(map(is_concrete, leaves)) or not is_concrete(jnp.zeros(()))
