"""What attentions on sequences, and diffusion on grids, need of a measure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield.errors import InvalidInputError, UnsupportedError

from ._gaussian import Gaussian
from ._grid import Grid
from ._measure import AbstractMeasure, Facing
from ._points import Points
from ._reader import AbstractReader
from .grids import AffineBox

ROUNDED = 1e-12  # of squared lengths, below which a product of two axes is none


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


def check_upright(mu: Grid) -> None:
    """Refuses a box that shears: in it diffusion has mixed derivatives.

    Raises:
        UnsupportedError: naming the boxes that work.

    Examples:
        >>> from meanfield import Grid
        >>> from meanfield.measures import FixedBox, check_upright
        >>> edges = np.linspace(-1, 1, 9)
        >>> check_upright(
        ...     Grid.from_density([edges, edges], np.ones((8, 8)), box=FixedBox())
        ... )
    """
    shears = isinstance(mu.box, AffineBox) and mu.dimension > 1
    if not shears and is_concrete(mu.state.axes):
        D = np.asarray(mu.state.axes)
        gram = np.abs(np.tril(D.T @ D, -1))
        shears = bool(np.max(gram) > ROUNDED * np.max(D**2))
    if shears:
        raise UnsupportedError(
            "Diffusion on a plane grid needs a box that does not shear: use "
            "`ScaledBox` or `FixedBox` (`box = scaled` or `fixed`)."
        )
