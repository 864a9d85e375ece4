"""The matrices of a variant as on the command line: `A`, and numbers $c$ for $cI$."""

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from meanfield._array import float_array
from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError

R = TypeVar("R")
Matrices = dict[str, Numbers]


def accept_multiples(factory: Callable[..., R]) -> Callable[..., R]:
    """A factory that also takes `A` for `Q` and `K`, and numbers `c` for $cI$."""

    def make(
        Q: Numbers | None = None,
        K: Numbers | None = None,
        V: Numbers = 1.0,
        *,
        A: Numbers | None = None,
        d: int | None = None,
        **options: object,
    ) -> R:
        matrices = {**_scores(Q, K, A), "V": V}
        if d is not None or any(np.ndim(value) == 0 for value in matrices.values()):
            matrices = _fill(matrices, d)
        return factory(*matrices.values(), **options)

    matrices, old = inspect.signature(make), inspect.signature(factory)
    names = [name for name in matrices.parameters if name != "options"]
    options = [old.parameters[name] for name in old.parameters if name not in names]
    parameters = [*(matrices.parameters[name] for name in names), *options]
    make = functools.wraps(factory)(make)
    make.__signature__ = old.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return make


def _scores(Q: Numbers | None, K: Numbers | None, A: Numbers | None) -> Matrices:
    """The matrices of queries and keys; those of `A` are `A` and $I$."""
    if Q is None and K is None:
        return {"A": 1.0 if A is None else A, "K": 1.0}
    if Q is None or K is None or A is not None:
        raise InvalidInputError(
            "Give both `Q` and `K`, or only `A`, which stands for `K.T @ Q`."
        )
    return {"Q": Q, "K": K}


def _fill(matrices: Matrices, d: int | None) -> Matrices:
    """The matrices, with $cI$ in dimension `d` for each number $c$."""
    arrays = {name: float_array(name, value) for name, value in matrices.items()}
    sizes = {array.shape[-1] for array in arrays.values() if array.ndim}
    sizes |= set() if d is None else {d}
    if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        raise InvalidInputError(f"`d` must be a positive integer; got {d}.")
    if not sizes:
        raise InvalidInputError(
            "The dimension is unknown: give `d`, or at least one matrix."
        )
    if len(sizes) > 1:
        raise InvalidInputError(
            "Matrices and `d` must have the same number of columns; got "
            f"{' and '.join(map(str, sorted(sizes)))}."
        )
    identity = np.eye(sizes.pop())
    return {n: a if a.ndim else a * identity for n, a in arrays.items()}
