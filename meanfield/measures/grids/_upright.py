"""Whether the axes of a box stand at right angles, and stay so."""

import numpy as np

from meanfield._array import is_concrete
from meanfield.errors import UnsupportedError

from ._boxes import AffineBox
from ._grid import Grid

ROUNDED = 1e-12  # of squared lengths, below which a product of two axes is none


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
