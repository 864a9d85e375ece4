"""Sums to a tolerance, which wait for a plan."""

import abc
from numbers import Real

import equinox as eqx
import jax
from jaxtyping import PyTree

from meanfield.errors import InvalidInputError

from ._reduction import AbstractReduction, Blocked


class AbstractPlanned(AbstractReduction):
    """Sums that are interpolated to a tolerance, once it is known how.

    Attributes:
        tolerance: the largest error of a velocity, relative to the largest velocity.
        otherwise: how sums go until there is a plan, and those that none can hold.

    Raises:
        InvalidInputError: if the tolerance is not between 0 and 1.

    Examples:
        >>> from meanfield.measures import Cells, Chebyshev
        >>> from meanfield.measures.reductions import AbstractPlanned
        >>> issubclass(Cells, AbstractPlanned), Chebyshev(1e-6).is_planned
        (True, False)
    """

    tolerance: float = eqx.field(static=True, default=1e-6)
    otherwise: AbstractReduction = Blocked()

    def __check_init__(self) -> None:
        if not (isinstance(self.tolerance, Real) and 0 < self.tolerance < 1):
            raise InvalidInputError(
                "`tolerance` is the largest error of a velocity over the largest "
                f"velocity, a number between 0 and 1; got {self.tolerance!r}."
            )

    @property
    @abc.abstractmethod
    def is_planned(self) -> bool:
        """Whether it is known how."""

    @property
    @abc.abstractmethod
    def unplanned(self) -> "AbstractPlanned":
        """The same, without a plan."""


def exactly(tree: PyTree) -> PyTree:
    """A tree, a measure or a field, with exact sums in place of interpolated ones.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Chebyshev, exactly
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Chebyshev(counts=(8,)))
        >>> exactly(mu).reduction
        Blocked()
    """
    interpolates = lambda leaf: isinstance(leaf, AbstractPlanned)
    replace = lambda leaf: _exact(leaf) if isinstance(leaf, AbstractReduction) else leaf
    return jax.tree.map(replace, tree, is_leaf=interpolates)


def _exact(how: AbstractReduction) -> AbstractReduction:
    while isinstance(how, AbstractPlanned):
        how = how.otherwise
    return how
