"""What a movie of tokens says where chosen limits leave some of them out."""

import numpy as np
from matplotlib.axes import Axes

from meanfield.plotting.reading.data import Cloud, Swarm
from meanfield.plotting.tokens.line import band
from meanfield.plotting.tokens.views import (
    ellipses,
    limits_seen,
    robust_windows,
    window,
)


def unseen_note(cloud: Cloud, axes: Axes) -> str:
    """How many tokens are outside axes with chosen limits, in the frame with most.

    Nothing if no limits are chosen: the note of a view says then what it leaves out.
    """
    if not (cloud.look.xlim or cloud.look.ylim):
        return ""
    places, low, high = (
        _on_line(cloud) if cloud.dimension == 1 else _in_plane(cloud, axes)
    )
    outside = np.any((places < low) | (places > high), axis=-1).sum(axis=1).max()
    if outside == 0:
        return ""
    if isinstance(cloud.state, Swarm):
        return f"up to {outside} of {places.shape[1]} tokens are outside the view"
    return "two deviations reach outside the view"


def _in_plane(cloud: Cloud, axes: Axes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens or outlines, (time, n, 2), and the corners of the view of each frame."""
    state = cloud.state
    places = state.x if isinstance(state, Swarm) else ellipses(state)
    room = np.array([axes.bbox.width, axes.bbox.height])
    views, _ = robust_windows(cloud)
    corners = [limits_seen(view, room, cloud.look) for view in views]
    low, high = np.stack(corners, axis=1)[:, :, None]
    return places, low, high


def _on_line(cloud: Cloud) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and coordinates, (time, n, 2), and the corners of all that is chosen."""
    state, look = cloud.state, cloud.look
    x = state.x[..., 0] if isinstance(state, Swarm) else band(state, window(cloud)).T
    places = np.stack(np.broadcast_arrays(cloud.times[:, None], x), axis=-1)
    limits = (look.xlim or (-np.inf, np.inf), look.ylim or (-np.inf, np.inf))
    low, high = np.array(limits).T
    return places, low, high
