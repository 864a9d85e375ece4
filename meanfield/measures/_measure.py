"""What every measure answers for."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jaxtyping import Array, Float, PyTree
from typing_extensions import override

from meanfield._display import Card, Shown
from meanfield.fields import AbstractField

if TYPE_CHECKING:
    from ._reader import AbstractReader


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

    @property
    @override
    def card(self) -> Card | None:
        from ._cards import card_of  # it knows the measures, which derive from this

        return card_of(self)

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
    def read_by(self, reader: "AbstractReader[Any]") -> Any:
        """What a reader makes of it, by the method that fits: `of_points`, say."""
