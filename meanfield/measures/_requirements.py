"""Checks of measures for attentions on sequences, and for diffusion on grids."""

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

# Axes count as orthogonal if the absolute value of their inner product is at most this
# multiple of their largest squared entry.
SHEAR_TOLERANCE = 1e-12


@dataclass(frozen=True)
class SequenceCheck(AbstractReader[None]):
    """Raises unless a measure consists of tokens with positions in a sequence.

    Attributes:
        attention_name: returns the name of the attention that needs a sequence.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.measures import SequenceCheck
        >>> try:
        ...     SequenceCheck(lambda: "sortcut")(Points.uniform([[0.0]]))
        ... except ValueError as error:
        ...     print(error)
        `sortcut` attention cuts a sequence into blocks, but these tokens have no po...
    """

    attention_name: Callable[[], str]
    reads = "Attention reads points, Gaussians and grids"

    @override
    def read_points(self, mu: Points) -> None:
        if mu.tokens.position is None:
            raise InvalidInputError(
                f"`{self.attention_name()}` attention cuts a sequence into blocks, but "
                "these tokens have no positions. Create the tokens with `position=`."
            )

    @override
    def read_gaussian(self, mu: Gaussian) -> None:
        raise self._sequence_error("a Gaussian")

    @override
    def read_grid(self, mu: Grid) -> None:
        raise self._sequence_error("a grid")

    @override
    def read_nodes(self, mu: AbstractMeasure, nodes: Points) -> None:
        raise self._sequence_error(f"a `{type(mu).__name__}`")

    @override
    def read_facing(self, mu: Facing) -> None:
        raise UnsupportedError(
            f"`{self.attention_name()}` attention sorts the blocks of one sequence, "
            "and is not defined for cross-attention. Leave `context` out."
        )

    def _sequence_error(self, kind: str) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.attention_name()}` attention cuts a sequence of tokens into "
            f"blocks, but {kind} has no sequence. Use points."
        )


def check_no_shear(mu: Grid) -> None:
    """Raises if the box of a grid shears, as diffusion then has mixed derivatives.

    Raises:
        UnsupportedError: if the box shears; the message names the supported boxes.

    Examples:
        >>> from meanfield import Grid
        >>> from meanfield.measures import FixedBox, check_no_shear
        >>> edges = np.linspace(-1, 1, 9)
        >>> check_no_shear(
        ...     Grid.from_density([edges, edges], np.ones((8, 8)), box=FixedBox())
        ... )
    """
    shears = isinstance(mu.box, AffineBox) and mu.dimension > 1
    if not shears and is_concrete(mu.state.axes):
        D = np.asarray(mu.state.axes)
        gram = np.abs(np.tril(D.T @ D, -1))
        shears = bool(np.max(gram) > SHEAR_TOLERANCE * np.max(D**2))
    if shears:
        raise UnsupportedError(
            "Diffusion on a two-dimensional grid needs a box that does not shear. Use "
            '`ScaledBox` or `FixedBox` (`box = "scaled"` or `box = "fixed"`).'
        )
