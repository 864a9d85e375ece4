"""Converts a trajectory to an `xarray.Dataset` in the layout of a stored run."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield._array import is_concrete
from meanfield.errors import InvalidInputError
from meanfield.flows import Trajectory
from meanfield.storage import ENDING_FLAGS, RUN, dims_of, kinds

from .records._numbers import add_numbers
from .records._provenance import provenance
from .representations import representation_of

if TYPE_CHECKING:
    import xarray


def trajectory_dataset(run: Trajectory[Any]) -> "xarray.Dataset":
    """The frames of a trajectory as a dataset, with the names and dims of a store.

    If the flow ended early, the last frame is the state at its end. Members of an
    ensemble (leading dimension `run`) keep all frames, as in a store; frames after an
    early end repeat the last state. The dataset has a variable `position` only if
    tokens have positions. Numbers of each frame are computed when they are read, as in
    `meanfield.open`.

    Raises:
        InvalidInputError: inside `jit`, where the arrays have no values yet.
        UnsupportedError: if the measure has no representation in runs.

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
            "A trajectory has no values inside `jit`: return it from the compiled "
            "function, and call `to_xarray` on the result."
        )
    representation, start = representation_of(run.start), run.start
    times, coordinates = _frames_to_end(run)
    static = representation.static(start)
    if not representation.has_positions(start):
        static.pop("position", None)
    arrays = {"time": times, **representation.frames(start, coordinates), **static}
    dims = representation.dims(start)
    variables = {n: (dims_of(n, a.ndim, dims), a) for n, a in arrays.items()}
    attrs = {"kind": representation.name, "dtype": times.dtype.name, **provenance()}
    if start.is_confined:
        attrs["is_confined"] = True
    data = xarray.Dataset({**variables, **_ending(run)}, attrs=attrs)
    return add_numbers(data.assign(kinds[representation.name].derive(data)))


def _frames_to_end(run: Trajectory[Any]) -> tuple[np.ndarray, PyTree[Array]]:
    """The times and frames that a store would keep, up to the end of the flow."""
    times, frames = np.asarray(run.ts), run.coordinates
    if run.ts.ndim > 1:
        return times[0], frames
    if int(run.n_saved) == len(times):
        return times, frames
    end = np.asarray(run.stop_time)
    count = int(np.sum(times < end))
    append_last = lambda rows, last: jnp.concatenate([rows[:count], last[None]])
    return np.append(times[:count], end), jax.tree.map(append_last, frames, run.last)


def _ending(run: Trajectory[Any]) -> dict[str, Any]:
    """The variables that say how each flow ended, as in a store."""
    dims = (RUN,) * (run.ts.ndim - 1)
    attrs: dict[str, Any] = {**ENDING_FLAGS}
    if not dims:
        attrs["reason"] = run.status.reason
    numbers = {"stop_time": run.stop_time, "t_star": run.t_star}
    numbers["t_star_error"] = run.t_star_error
    status = {"status": (dims, np.asarray(run.code, np.int8), attrs)}
    return status | {n: (dims, np.asarray(a, float)) for n, a in numbers.items()}
