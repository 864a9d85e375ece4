"""The arrays of a density on a grid that a flow moves."""

from typing import NamedTuple

from jaxtyping import Array, Float


class GridState(NamedTuple):
    r"""All that moves of a density on a grid.

    Attributes:
        masses: of the cells, by layer and axis.
        outflow: the mass that has left through the faces of the box.
        origin: $c$ in $x = c + D\xi$.
        axes: $D$.
        courant: stable steps taken: the integral of the inverse of the longest one.
        blur: the integral of the error of interpolated velocities, a length.

    Examples:
        >>> from meanfield import Grid
        >>> edges = np.linspace(-6, 6, 25)
        >>> grid = Grid.from_function(
        ...     [edges], lambda x: np.exp(-(x[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)
        ... )
        >>> print(grid.state.masses.shape, grid.state.outflow)
        (1, 24) 0.0
    """

    masses: Float[Array, "layers ..."]
    outflow: Float[Array, ""]
    origin: Float[Array, " d"]
    axes: Float[Array, "d d"]
    courant: Float[Array, ""]
    blur: Float[Array, ""]
