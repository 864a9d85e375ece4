"""Stacks of measures: their properties are those of the members, one by one.

In a stack, such as the `final` of an ensemble, every array leads with the same axes.
"""

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np

from meanfield.errors import WrongKindError

if TYPE_CHECKING:
    from ._measure import AbstractMeasure

P = ParamSpec("P")
R = TypeVar("R")


def memberwise(function: Callable[P, R]) -> Callable[P, R]:
    """A method of one measure that answers for each member of a stack.

    Its arguments lead with the same axes as the measure, and so do its results.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import memberwise
        >>> pair = Gaussian(jnp.zeros((2, 1)), jnp.array([[[1.0]], [[3.0]]]))
        >>> variance = memberwise(lambda mu: mu.covariance[0, 0])
        >>> print(variance(pair))
        [1. 9.]
    """

    @functools.wraps(function)
    def of_members(*args: P.args, **kwargs: P.kwargs) -> R:
        shape = args[0].batch_shape  # pyright: ignore[reportAttributeAccessIssue]
        if shape:
            _check_leading(shape, args)
        mapped = function
        for _ in shape:
            mapped = eqx.filter_vmap(mapped, in_axes=_leading_axis)
        return mapped(*args, **kwargs)

    return of_members


def check_unstacked(mu: "AbstractMeasure", must: str) -> None:
    """Raises unless `mu` is one measure.

    Args:
        mu: a measure, or a stack of them.
        must: what must hold, as the message begins.

    Raises:
        WrongKindError: if it is a stack.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import check_unstacked
        >>> pair = Gaussian(jnp.zeros((2, 1)), jnp.ones((2, 1, 1)))
        >>> check_unstacked(pair, "A distance is between two measures")
        Traceback (most recent call last):
            ...
        meanfield.errors.WrongKindError: A distance is between two measures; got a s...
    """
    if mu.batch_shape:
        raise WrongKindError(
            f"{must}; got a stack of shape {mu.batch_shape}. Take "
            "one member, `runs.member(i).final` of an ensemble, or map over the stack "
            "with `equinox.filter_vmap`."
        )


def leading_axes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that lead all arrays of a stack.

    Raises:
        WrongKindError: if they differ.
    """
    if len(set(shapes)) > 1:
        raise _uneven(shapes)
    return shapes[0]


def _uneven(shapes: Iterable[tuple[int, ...]]) -> WrongKindError:
    return WrongKindError(
        "Every array of a stack of measures must lead with the same axes; got "
        f"{sorted(set(shapes))}. `meanfield.dynamics.stacked` makes a stack."
    )


def _check_leading(shape: tuple[int, ...], args: tuple[Any, ...]) -> None:
    arrays = [leaf for leaf in jax.tree.leaves(args) if _is_array(leaf)]
    leads = {np.shape(a)[: len(shape)] for a in arrays}
    if leads != {shape}:
        raise _uneven(leads)


def _leading_axis(leaf: object) -> int | None:
    return 0 if _is_array(leaf) else None


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)
