"""Dispatch on the kind of a measure: one method for each."""

import abc
from typing import ClassVar, Generic, TypeVar

from meanfield.errors import UnsupportedError

from ._gaussian import Gaussian
from ._grid import Grid
from ._measure import AbstractMeasure, Facing, check_unstacked
from ._points import Points
from ._quadrature import Quadrature

R = TypeVar("R")


class AbstractReader(abc.ABC, Generic[R]):
    """A function of measures, such as a velocity, an energy or a distance.

    A call dispatches to the method for the kind of the measure. If a class of measures
    is defined elsewhere, its `accept` calls one of these methods, for example
    `read_nodes`, with quadrature nodes for integrals over the measure.

    Examples:
        >>> from meanfield import Gaussian, Points
        >>> from meanfield.measures import AbstractReader
        >>> class Name(AbstractReader[str]):
        ...     def read_points(self, mu):
        ...         return f"{mu.tokens.n} tokens"
        ...
        ...     def read_gaussian(self, mu):
        ...         return "a Gaussian"
        >>> (
        ...     Name()(Points.uniform([[0.0], [1.0]])),
        ...     Name()(Gaussian(jnp.zeros(1), jnp.eye(1))),
        ... )
        ('2 tokens', 'a Gaussian')
    """

    reads: ClassVar[str] = "Points, Gaussians and grids are read"
    """The supported measures, in words; messages about other measures begin with it."""

    def __call__(self, mu: AbstractMeasure) -> R:
        """The value for a measure.

        Raises:
            UnsupportedError: if `mu` is not a supported measure.
        """
        if not isinstance(mu, AbstractMeasure):
            raise unsupported_measure(self, mu)
        self.check(mu)
        return mu.accept(self)

    def check(self, mu: AbstractMeasure) -> None:
        """Raises if `mu` is a stack; readers that support stacks override this method.

        Raises:
            WrongKindError: by default if `mu` is a stack.
        """
        check_unstacked(mu, f"{self.reads}, one at a time")

    @abc.abstractmethod
    def read_points(self, mu: Points) -> R:
        """The value for weighted tokens."""

    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> R:
        """The value for any other measure, given quadrature nodes for its integrals.

        By default, the nodes are read as weighted tokens. A reader that needs the atoms
        of a measure raises instead.
        """
        del mu
        return self.read_points(nodes)

    def read_grid(self, mu: Grid) -> R:
        """The value for a density; by default its cells are read as weighted tokens."""
        return self.read_points(mu.points())

    def read_zonal(self, mu: AbstractMeasure, nodes: Points) -> R:
        """The value for a zonal density, with nodes that serve as keys only.

        Raises:
            UnsupportedError: unless a reader overrides this method.
        """
        del nodes
        raise unsupported_measure(self, mu)

    @abc.abstractmethod
    def read_gaussian(self, mu: Gaussian) -> R:
        """The value for a Gaussian."""

    def read_facing(self, mu: Facing) -> R:
        """The value for queries that attend to keys of another measure.

        Raises:
            UnsupportedError: unless a reader of two measures overrides this method.
        """
        raise unsupported_measure(self, mu)

    def read_quadrature(self, mu: Quadrature) -> R:
        """The value for a Gaussian with nodes, which are ignored by default."""
        return self.read_gaussian(mu.gaussian)


def unsupported_measure(reader: AbstractReader, thing: object) -> UnsupportedError:
    """The exception for an argument that `reader` does not support.

    Examples:
        >>> from meanfield.attention import attentions
        >>> one = jnp.eye(1)
        >>> try:
        ...     attentions["softmax"](one, one, one).field(0.0, "tokens")
        ... except TypeError as error:
        ...     print(error)
        Attention reads points, Gaussians and grids; got a str.
    """
    return UnsupportedError(f"{reader.reads}; got a {type(thing).__name__}.")
