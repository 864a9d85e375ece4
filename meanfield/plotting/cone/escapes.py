"""Directions in which covariances blow up, and how many runs share each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from meanfield.clusters import component_labels
from meanfield.endings import Status

from .paths import ConePath, cone_paths, shapes_of_trace_one

# Blow-ups at most `_LINK` apart in the disc are linked; linked ones share a direction.
_LINK = 1e-2


class EscapeDirections(NamedTuple):
    r"""Directions of blow-up: points (k, 2) of the disc $\operatorname{tr}\Sigma = 1$.

    `counts` is the number of runs in each direction, the most frequent first. `spreads`
    is the largest distance of these runs from the direction: small for a common
    direction, large for a continuum of directions.

    Examples:
        >>> from meanfield.plotting import EscapeDirections
        >>> EscapeDirections._fields
        ('directions', 'counts', 'spreads')
    """

    directions: np.ndarray
    counts: np.ndarray
    spreads: np.ndarray


def escape_directions(dataset: xr.Dataset) -> EscapeDirections:
    r"""Clusters of the last shapes $\Sigma / \operatorname{tr}\Sigma$ before blow-ups.

    The last shape is $(a - b, 2c) / (a + b)$ at the last finite frame. Shapes at most
    0.01 apart are linked, and a direction is the mean of a connected component. The
    result is empty if no run blows up.

    Raises:
        InvalidInputError: if the dimension is not two, or $\Sigma$ always vanishes.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> from meanfield.plotting import escape_directions
        >>> keys = {"measure": "gaussian", "starts": "grid:4", "d": 2, "t": 20.0}
        >>> keys |= {"A": [[2.0, 0.0], [0.0, 1.0]]}
        >>> _ = runs.execute(spec.parse(keys), out=Path("cone.zarr"))
        >>> print(escape_directions(runs.dataset(Path("cone.zarr"))).directions)
        [[-0.3333 -0.625 ]
         [-0.3333  0.625 ]
         [ 0.8178 -0.5755]
         [ 0.8178  0.5755]]
    """
    return escapes(shapes_of_trace_one(cone_paths(dataset, "disc"))[0])


def escapes(shapes: Sequence[ConePath]) -> EscapeDirections:
    """Directions in which runs blow up, from their paths in the disc of trace one."""
    ends = [
        shape.points[-1] for shape in shapes if shape.ending.status is Status.BLOW_UP
    ]
    if not ends:
        return EscapeDirections(
            np.empty((0, 2)), np.empty(0, dtype=np.intp), np.empty(0)
        )
    points = np.array(ends)
    labels = component_labels(points, _LINK)
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, weights=x) for x in points.T], axis=-1)
    centres = sums / counts[:, None]
    spreads = np.zeros(len(counts))
    np.maximum.at(spreads, labels, np.linalg.norm(points - centres[labels], axis=1))
    order = np.argsort(-counts, kind="stable")
    return EscapeDirections(centres[order], counts[order], spreads[order])
