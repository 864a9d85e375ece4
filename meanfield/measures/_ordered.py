"""What is needed of a measure where tokens are counted in order."""

from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import override

from meanfield.errors import InvalidInputError, UnsupportedError

from ._facing import Facing
from ._gaussian import Gaussian
from ._measure import AbstractMeasure
from ._points import Points
from ._reader import AbstractReader
from .grids import Grid


@dataclass(frozen=True)
class Ordered(AbstractReader[None]):
    """Refuses measures whose tokens do not stand in a sequence.

    Attributes:
        called: gives the name of the attention that needs one.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import Ordered
        >>> try:
        ...     Ordered(lambda: "sortcut")(Points.uniform([[0.0]]))
        ... except ValueError as error:
        ...     print(error)
        `sortcut` attention cuts a sequence into blocks, and these tokens have no po...
    """

    called: Callable[[], str]
    reads = "Attention reads points, Gaussians and grids"

    @override
    def of_points(self, mu: Points) -> None:
        if mu.tokens.position is None:
            raise InvalidInputError(
                f"`{self.called()}` attention cuts a sequence into blocks, and these "
                "tokens have no positions; build them with `position=`."
            )

    @override
    def of_gaussian(self, mu: Gaussian) -> None:
        raise self._unordered("a Gaussian")

    @override
    def of_grid(self, mu: Grid) -> None:
        raise self._unordered("a grid")

    @override
    def of_nodes(self, mu: AbstractMeasure, nodes: Points) -> None:
        raise self._unordered(f"a `{type(mu).__name__}`")

    @override
    def of_facing(self, mu: Facing) -> None:
        raise UnsupportedError(
            f"`{self.called()}` attention sorts the blocks of one sequence, and has no "
            "form where tokens look at another measure; leave `context` out."
        )

    def _unordered(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.called()}` attention cuts a sequence of tokens into blocks, and "
            f"{what} has none; use points."
        )
