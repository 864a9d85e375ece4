"""Reductions with a tolerance, which need a plan."""

import abc
from numbers import Real

import equinox as eqx
import jax
from jaxtyping import PyTree

from meanfield.errors import InvalidInputError

from ._reduction import AbstractReduction, Blocked


class AbstractPlannedReduction(AbstractReduction):
    """A reduction that interpolates sums to a tolerance, as soon as it has a plan.

    Attributes:
        tolerance: largest error of a velocity, relative to the largest velocity.
        fallback: reduction before planning, and for sums that cannot be interpolated.

    Raises:
        InvalidInputError: if the tolerance is not between 0 and 1.

    Examples:
        >>> from meanfield.measures import Cells, Chebyshev
        >>> from meanfield.measures.reductions import AbstractPlannedReduction
        >>> issubclass(Cells, AbstractPlannedReduction), Chebyshev(1e-6).is_planned
        (True, False)
    """

    tolerance: float = eqx.field(static=True, default=1e-6)
    fallback: AbstractReduction = Blocked()

    def __check_init__(self) -> None:
        if not (isinstance(self.tolerance, Real) and 0 < self.tolerance < 1):
            raise InvalidInputError(
                "`tolerance`, an error relative to the largest velocity, must be a "
                f"number between 0 and 1; got {self.tolerance!r}."
            )

    @property
    @abc.abstractmethod
    def is_planned(self) -> bool:
        """Whether the reduction has a plan."""

    @property
    @abc.abstractmethod
    def unplanned_copy(self) -> "AbstractPlannedReduction":
        """A copy of the reduction without its plan."""


def use_exact_sums(tree: PyTree) -> PyTree:
    """A measure, field or other tree, with exact sums instead of interpolated ones.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Chebyshev, use_exact_sums
        >>> mu = Points.uniform([[0.0], [1.0]], reduction=Chebyshev(counts=(8,)))
        >>> use_exact_sums(mu).reduction
        Blocked()
    """
    interpolates = lambda leaf: isinstance(leaf, AbstractPlannedReduction)
    replace = lambda leaf: _exact(leaf) if isinstance(leaf, AbstractReduction) else leaf
    return jax.tree.map(replace, tree, is_leaf=interpolates)


def _exact(reduction: AbstractReduction) -> AbstractReduction:
    while isinstance(reduction, AbstractPlannedReduction):
        reduction = reduction.fallback
    return reduction
