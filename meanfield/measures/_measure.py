"""What every measure answers for: stacks member by member, a measure and its keys."""

import abc
import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._display import Shown
from meanfield.errors import WrongKindError
from meanfield.fields import AbstractField

P = ParamSpec("P")
R = TypeVar("R")


class AbstractMeasure(Shown, eqx.Module):
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
    def bare(self) -> str:
        return eqx.tree_pformat(self)

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The dimension of the space that it lives in."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The axes that lead all arrays of a stack of measures; none of one measure.

        A hook: a measure that does not know its stacks is one measure.
        """
        return ()

    @property
    @abc.abstractmethod
    def coordinates(self) -> PyTree[Array]:
        """The arrays that move, and nothing else."""

    @abc.abstractmethod
    def at(self, coordinates: PyTree[Array]) -> "AbstractMeasure":
        """The measure with other coordinates; what does not move stays."""

    @abc.abstractmethod
    def transport(self, field: AbstractField) -> PyTree[Array]:
        """The time derivative of the coordinates under `field`."""

    @abc.abstractmethod
    def norm(self, tangent: PyTree[Array]) -> Float[Array, ""]:
        """The size of a displacement, as the measure sees it."""

    @property
    @abc.abstractmethod
    def size(self) -> Float[Array, ""]:
        r"""$(\int |x|^2 d\mu/\mu(1))^{1/2}$: infinite in finite time at a blow-up."""

    @abc.abstractmethod
    def error_norm(self, error: PyTree[Array]) -> Float[Array, ""]:
        """The size of an integration error, which nothing that moves may escape."""

    @abc.abstractmethod
    def read_by(self, reader: Any) -> Any:
        """What a reader makes of it, by the method that fits: `of_points`, say.

        Args:
            reader: an `AbstractReader`, which knows all kinds of measures.
        """


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


class Facing(AbstractMeasure):
    """Queries that look at the keys of another measure, and move; those do not.

    What `Cross` asks its dynamics for a field of. In all else it is its queries.

    Attributes:
        queries: what looks, of any kind.
        keys: what is looked at, of any kind.

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
    def at(self, coordinates: PyTree[Array]) -> "Facing":
        return Facing(self.queries.at(coordinates), self.keys)

    @override
    def transport(self, field: AbstractField) -> PyTree[Array]:
        return self.queries.transport(field)

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
    def read_by(self, reader: Any) -> Any:
        return reader.of_facing(self)


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
