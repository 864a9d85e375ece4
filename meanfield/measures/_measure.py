"""The interface of measures, stacks of measures, and measures that attend to keys."""

import abc
import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._display import AbstractDisplayable
from meanfield.errors import WrongKindError
from meanfield.fields import AbstractField

P = ParamSpec("P")
R = TypeVar("R")


class AbstractMeasure(AbstractDisplayable, eqx.Module):
    """A probability measure that a velocity field can move.

    Examples:
        >>> from meanfield import Gaussian, Points
        >>> from meanfield.measures import AbstractMeasure
        >>> measures = [
        ...     Points.uniform([[-1.0], [1.0]]),
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)),
        ... ]
        >>> [
        ...     (mu.dimension, float(mu.size), isinstance(mu, AbstractMeasure))
        ...     for mu in measures
        ... ]
        [(1, 1.00000..., True), (1, 1.0, True)]
    """

    @override
    def plain_repr(self) -> str:
        return eqx.tree_pformat(self)

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The dimension of the space."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of a stack of measures; `()` for one measure.

        By default, a measure is not a stack; classes that can be stacked override this.
        """
        return ()

    @property
    @abc.abstractmethod
    def coordinates(self) -> PyTree[Array]:
        """The arrays that move, and nothing else."""

    @abc.abstractmethod
    def replace_coordinates(self, coordinates: PyTree[Array]) -> "AbstractMeasure":
        """The measure with other coordinates, and everything else unchanged."""

    @abc.abstractmethod
    def transport(self, field: AbstractField) -> PyTree[Array]:
        """The time derivative of the coordinates under `field`."""

    @property
    def is_confined(self) -> bool:
        """Whether the measure lives in a compact space, so that no flow blows up."""
        return False

    @abc.abstractmethod
    def norm(self, tangent: PyTree[Array]) -> Float[Array, ""]:
        """The norm of a tangent vector, weighted by the measure."""

    @property
    @abc.abstractmethod
    def size(self) -> Float[Array, ""]:
        r"""The root mean square norm $(\int |x|^2 d\mu/\mu(1))^{1/2}$."""

    @abc.abstractmethod
    def error_norm(self, error: PyTree[Array]) -> Float[Array, ""]:
        """The norm of an integration error; it must bound every coordinate."""

    @abc.abstractmethod
    def accept(self, reader: Any) -> Any:
        """Calls the reader's method for this kind of measure, such as `read_grid`.

        Args:
            reader: an `AbstractReader`, with a method for each kind of measure.
        """


def memberwise(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that maps a method of one measure over the members of a stack.

    All arrays in the arguments need the same leading axes as the measure, and the
    arrays in the results have these axes, too.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import memberwise
        >>> pair = Gaussian(jnp.zeros((2, 1)), jnp.array([[[1.0]], [[3.0]]]))
        >>> variance = memberwise(lambda mu: mu.covariance[0, 0])
        >>> print(variance(pair))
        [1. 9.]
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        shape = args[0].batch_shape  # pyright: ignore[reportAttributeAccessIssue]
        if shape:
            _check_leading(shape, args)
        batched_function = function
        for _ in shape:
            batched_function = eqx.filter_vmap(batched_function, in_axes=_leading_axis)
        return batched_function(*args, **kwargs)

    return wrapper


def check_unstacked(mu: "AbstractMeasure", requirement: str) -> None:
    """Raises if `mu` is a stack of measures.

    Args:
        mu: a measure, or a stack of them.
        requirement: what must hold; the message begins with it.

    Raises:
        WrongKindError: if `mu` is a stack.

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
            f"{requirement}; got a stack of shape {mu.batch_shape}. Take one member, "
            "such as `runs.member(i).final` of an ensemble, or map over the stack with "
            "`equinox.filter_vmap`."
        )


def leading_axes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The leading axes that all arrays of a stack have in common.

    Raises:
        WrongKindError: if `shapes` differ.
    """
    if len(set(shapes)) > 1:
        raise _uneven(shapes)
    return shapes[0]


class Facing(AbstractMeasure):
    """Queries that attend to the keys of another measure (cross-attention).

    The queries move, the keys do not. `Cross` passes this pair to the `field` of its
    dynamics. In all other respects, the pair behaves like the queries.

    Attributes:
        queries: the measure that moves, of any kind.
        keys: the measure of the keys, of any kind.

    Examples:
        >>> from meanfield import Gaussian
        >>> from meanfield.measures import Facing
        >>> queries, keys = (
        ...     Gaussian(jnp.zeros(1), jnp.eye(1)),
        ...     Gaussian(jnp.ones(1), jnp.eye(1)),
        ... )
        >>> print(Facing(queries, keys).coordinates[0])
        [0.]
    """

    queries: AbstractMeasure
    keys: AbstractMeasure

    @property
    @override
    def dimension(self) -> int:
        return self.queries.dimension

    @property
    @override
    def batch_shape(self) -> tuple[int, ...]:
        return leading_axes(self.queries.batch_shape, self.keys.batch_shape)

    @property
    @override
    def coordinates(self) -> PyTree[Array]:
        return self.queries.coordinates

    @override
    def replace_coordinates(self, coordinates: PyTree[Array]) -> "Facing":
        return Facing(self.queries.replace_coordinates(coordinates), self.keys)

    @override
    def transport(self, field: AbstractField) -> PyTree[Array]:
        return self.queries.transport(field)

    @property
    @override
    def is_confined(self) -> bool:
        return self.queries.is_confined

    @override
    @memberwise
    def norm(self, tangent: PyTree[Array]) -> Float[Array, ""]:
        return self.queries.norm(tangent)

    @property
    @override
    @memberwise
    def size(self) -> Float[Array, ""]:
        return self.queries.size

    @override
    @memberwise
    def error_norm(self, error: PyTree[Array]) -> Float[Array, ""]:
        return self.queries.error_norm(error)

    @override
    def accept(self, reader: Any) -> Any:
        return reader.read_facing(self)


def _uneven(shapes: Iterable[tuple[int, ...]]) -> WrongKindError:
    return WrongKindError(
        "All arrays of a stack of measures must have the same leading axes; got "
        f"{sorted(set(shapes))}. Use `meanfield.dynamics.stack_trees` to make a stack."
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
