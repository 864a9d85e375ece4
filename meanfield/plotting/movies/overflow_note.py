"""A movie's note about tokens outside the axis limits set by the user."""

import numpy as np
from matplotlib.axes import Axes

from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.tokens.line import band
from meanfield.plotting.tokens.views import (
    ellipses,
    robust_windows,
    view_limits,
    window,
)


def overflow_note(cloud: Cloud, axes: Axes) -> str:
    """A note with the largest number of tokens outside user-set limits in any frame.

    The note is empty if the user set no limits. Tokens outside the default view are
    mentioned in the note on the view.
    """
    if not (cloud.look.xlim or cloud.look.ylim):
        return ""
    places, low, high = (
        _line_places(cloud) if cloud.dimension == 1 else _plane_places(cloud, axes)
    )
    n_outside = np.any((places < low) | (places > high), axis=-1).sum(axis=1).max()
    if n_outside == 0:
        return ""
    if isinstance(cloud.state, Swarm):
        return f"up to {n_outside} of {places.shape[1]} tokens are outside the view"
    return "two deviations reach outside the view"


def _plane_places(
    cloud: Cloud, axes: Axes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens or ellipses (time, n, 2), and the axis limits of each frame."""
    state = cloud.state
    places = state.x if isinstance(state, Swarm) else ellipses(state)
    room, (views, _) = np.array(axes.bbox.size), robust_windows(cloud)
    corners = [view_limits(view, room, cloud.look) for view in views]
    low, high = np.stack(corners, axis=1)[:, :, None]
    return places, low, high


def _line_places(cloud: Cloud) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (time, coordinate) as (time, n, 2), and the limits that the user set."""
    state, look = cloud.state, cloud.look
    x = state.x[..., 0] if isinstance(state, Swarm) else band(state, window(cloud)).T
    places = np.stack(np.broadcast_arrays(cloud.times[:, None], x), axis=-1)
    limits = (look.xlim or (-np.inf, np.inf), look.ylim or (-np.inf, np.inf))
    low, high = np.array(limits).T
    return places, low, high
