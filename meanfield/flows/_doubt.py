"""How far a flow on a grid can be trusted: by what a smaller box or fewer cells change.

A truncated tail may be felt in no velocity of the bulk, and matter: the bulk looks at
tokens that look at others, further out. Only another run can tell.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import FEWEST, Grid

from ._flow import flow
from ._rim import without_rim
from ._trajectory import Trajectory

CUT = 1 / 8  # of the width of the box, emptied at each end for comparison


class Doubt(NamedTuple):
    r"""Changes of the covariance, relative to its trace, at each frame.

    Attributes:
        box: had the box been a quarter smaller.
        cells: had the cells been twice as wide.
    """

    box: Float[np.ndarray, " frames"]
    cells: Float[np.ndarray, " frames"]


def doubt(dynamics: AbstractDynamics, run: Trajectory[Grid]) -> Doubt:
    """The doubts about a run, from two shorter ones on half the cells along each axis.

    Infinite at frames that one of the runs did not reach.

    Raises:
        InvalidInputError: if the number of cells along an axis is odd or below 16.
    """
    coarse = _coarsened(run.start)
    others = [flow(dynamics, mu, run.ts) for mu in (coarse, without_rim(coarse, CUT))]
    fine, whole, cut = (_covariances(some) for some in (run, *others))
    sizes = np.trace(fine, axis1=1, axis2=2)
    gap = lambda a, b: np.linalg.norm(a - b, axis=(1, 2)) / sizes
    unknown = lambda values: np.where(np.isnan(values), np.inf, values)
    return Doubt(unknown(gap(whole, cut)), unknown(gap(whole, fine)))


def _covariances(run: Trajectory[Grid]) -> Float[np.ndarray, "frames d d"]:
    """Of each frame; NaN for those that were not reached."""
    values = np.array(run.map(lambda mu: mu.covariance))
    values[int(run.n_saved) :] = np.nan
    return values


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
