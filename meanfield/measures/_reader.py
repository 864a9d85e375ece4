"""What is made of a measure, for each way that it can be given."""

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
    """Makes something of a measure: a velocity, an energy, a distance.

    Called with a measure, it is handed on to the method that fits. A measure of another
    kind chooses, in its `read_by`, what it is for readers who know these four: with
    `of_nodes`, tokens that integrate as it does.

    Examples:
        >>> from meanfield import Gaussian, Points
        >>> from meanfield.measures import AbstractReader
        >>> class Name(AbstractReader[str]):
        ...     def of_points(self, mu):
        ...         return f"{mu.tokens.n} tokens"
        ...
        ...     def of_gaussian(self, mu):
        ...         return "a Gaussian"
        >>> (
        ...     Name()(Points.uniform([[0.0], [1.0]])),
        ...     Name()(Gaussian(jnp.zeros(1), jnp.eye(1))),
        ... )
        ('2 tokens', 'a Gaussian')
    """

    reads: ClassVar[str] = "Points, Gaussians and grids are read"
    """Who reads what, as the message about anything else begins."""

    def __call__(self, mu: AbstractMeasure) -> R:
        """What is made of a measure.

        Raises:
            UnsupportedError: if it is none that this reads.
        """
        if not isinstance(mu, AbstractMeasure):
            raise unread(self, mu)
        self.check(mu)
        return mu.read_by(self)

    def check(self, mu: AbstractMeasure) -> None:
        """Raises unless this reads such a measure; a hook for readers of stacks.

        Raises:
            WrongKindError: by default if `mu` is a stack.
        """
        check_unstacked(mu, f"{self.reads}, one at a time")

    @abc.abstractmethod
    def of_points(self, mu: Points) -> R:
        """What is made of weighted tokens."""

    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> R:
        """What is made of another measure, given nodes for integrals against it.

        By default, of the nodes. A reader that looks at atoms themselves refuses.
        """
        del mu
        return self.of_points(nodes)

    def of_grid(self, mu: Grid) -> R:
        """What is made of a density: by default, of the tokens that stand for it."""
        return self.of_points(mu.points())

    @abc.abstractmethod
    def of_gaussian(self, mu: Gaussian) -> R:
        """What is made of a Gaussian."""

    def of_facing(self, mu: Facing) -> R:
        """What is made of queries that look at another measure: by default, nothing.

        Raises:
            UnsupportedError: if it looks at one measure only.
        """
        raise unread(self, mu)

    def of_quadrature(self, mu: Quadrature) -> R:
        """What is made of a Gaussian with nodes: by default, of the Gaussian."""
        return self.of_gaussian(mu.gaussian)


def unread(reader: AbstractReader, thing: object) -> UnsupportedError:
    """The error of a reader that is given another thing.

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
