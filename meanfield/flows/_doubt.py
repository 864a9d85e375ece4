"""How far a flow on a grid can be trusted: by what a smaller box or fewer cells change.

A truncated tail may be felt in no velocity of the bulk, and matter: the bulk looks at
tokens that look at others, further out. Only another run can tell.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import FEWEST, Grid

from ._flow import flow
from ._noise import Isotropic
from ._rim import without_rim
from ._trajectory import Status

CUT = 1 / 8  # of the width of the box, emptied at each end for comparison


class Doubt(NamedTuple):
    r"""Changes of the final covariance, relative to its trace.

    Attributes:
        box: had the box been a quarter smaller.
        cells: had the cells been twice as wide.
    """

    box: float
    cells: float


def doubt(
    dynamics: AbstractDynamics,
    start: Grid,
    end: Grid,
    *,
    span: tuple[float, float],
    noise: Isotropic | None = None,
) -> Doubt:
    """The doubts about a flow, from two others on half the cells along each axis.

    Infinite where one of them does not reach the end of the span.

    Args:
        dynamics: what moved the grid.
        start: the grid when the flow began.
        end: the grid when it ended.
        span: when that was.
        noise: that of the flow.

    Raises:
        InvalidInputError: if the number of cells along an axis is odd or below 16.
    """
    coarse = _coarsened(start)
    both = coarse, without_rim(coarse, CUT)
    ends = [flow(dynamics, mu, np.array(span), noise=noise) for mu in both]
    whole, cut = (np.asarray(some.final.covariance) for some in ends)
    if not all(some.status is Status.FINISHED for some in ends):
        return Doubt(np.inf, np.inf)
    fine = np.asarray(end.covariance)
    gap = lambda other: float(np.linalg.norm(whole - other) / np.trace(fine))
    return Doubt(gap(cut), gap(fine))


def _coarsened(mu: Grid) -> Grid:
    """The same measure on cells twice as wide."""
    masses = mu.state.masses
    for axis, edges in enumerate(mu.edges):
        n = edges.shape[0] - 1
        if n % 2 or n < 2 * FEWEST:
            raise InvalidInputError(
                f"Only an even number of at least {2 * FEWEST} cells can be joined two "
                f"by two; axis {axis} has {n}."
            )
        pairs = (*masses.shape[: axis + 1], n // 2, 2, *masses.shape[axis + 2 :])
        masses = jnp.sum(masses.reshape(pairs), axis=axis + 2)
    state = mu.state._replace(masses=masses)
    return Grid(state, tuple(e[::2] for e in mu.edges), mu.position, mu.box, mu.probe)
