"""A trajectory as the dataset that its run would have been stored as."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield._array import is_concrete
from meanfield.errors import InvalidInputError
from meanfield.flows import Trajectory
from meanfield.storage import ENDING_FLAGS, RUN, dims_of, kinds

from .records._provenance import provenance
from .representations import representation_of

if TYPE_CHECKING:
    import xarray


def trajectory_dataset(run: Trajectory[Any]) -> "xarray.Dataset":
    """The frames of a trajectory, under the names and dims of a store.

    A flow that ended early has the state where it ended as its last frame; members of
    an ensemble, which lead with `run`, have the frames after it, too, as in a store.
    Tokens without positions have none here.

    Raises:
        InvalidInputError: inside `jit`, where there are no numbers yet.
        UnsupportedError: if no run moves such a measure.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow, runs
        >>> one = jnp.eye(1)
        >>> start = Gaussian(jnp.zeros(1), one)
        >>> run = flow(attentions["softmax"](-one, one, one), start, [0.0, 1.0])
        >>> sorted(runs.trajectory_dataset(run).sizes.items())
        [('coord', 1), ('other', 1), ('rank', 1), ('time', 2)]
    """
    import xarray

    if not all(map(is_concrete, jax.tree.leaves(run))):
        raise InvalidInputError(
            "A trajectory has no numbers inside `jit`: return it, and call `to_xarray` "
            "outside."
        )
    home, start = representation_of(run.start), run.start
    times, coordinates = _reached(run)
    static = home.static(start)
    if not home.has_positions(start):
        static.pop("position", None)
    arrays = {"time": times, **home.frames(start, coordinates), **static}
    dims = home.dims(start)
    named = {n: (dims_of(n, a.ndim, dims), a) for n, a in arrays.items()}
    attrs = {"kind": home.name, "dtype": times.dtype.name, **provenance()}
    data = xarray.Dataset({**named, **_ending(run)}, attrs=attrs)
    return data.assign(kinds[home.name].derived(data))


def _reached(run: Trajectory[Any]) -> tuple[np.ndarray, PyTree[Array]]:
    """The times and the frames that a store keeps."""
    times, frames = np.asarray(run.ts), run.coordinates
    if run.ts.ndim > 1:
        return times[0], frames
    if int(run.n_saved) == len(times):
        return times, frames
    end = np.asarray(run.stop_time)
    count = int(np.sum(times < end))
    ended = lambda rows, last: jnp.concatenate([rows[:count], last[None]])
    return np.append(times[:count], end), jax.tree.map(ended, frames, run.last)


def _ending(run: Trajectory[Any]) -> dict[str, Any]:
    """How each flow ended."""
    dims = (RUN,) * (run.ts.ndim - 1)
    about: dict[str, Any] = {**ENDING_FLAGS}
    if not dims:
        about["reason"] = run.status.reason
    numbers = {"stop_time": run.stop_time, "t_star": run.t_star}
    numbers["t_star_error"] = run.t_star_error
    status = {"status": (dims, np.asarray(run.code, np.int8), about)}
    return status | {n: (dims, np.asarray(a, float)) for n, a in numbers.items()}
