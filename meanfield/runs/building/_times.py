"""The times of the frames of a run."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from meanfield import models
from meanfield.errors import InvalidInputError
from meanfield.spec import RunSpec

from ._precision import dtype_of

_MOST = 2.0**53  # steps: whole numbers beyond are no floats
_FIRST = 1e-4  # of the time, where `spacing = log` has its first frame after the start


def times(spec: RunSpec) -> Float[np.ndarray, " times"]:
    """The times of the frames; with a fixed step they fall on its steps.

    Raises:
        InvalidInputError: if they do not increase in the format of the spec.
    """
    ts = _times(spec).astype(dtype_of(spec))
    if not np.all(ts[1:] > ts[:-1]):
        raise InvalidInputError(
            f"The frames lie closer than {spec.precision} precision can tell; ask for "
            "fewer `frames`."
        )
    return ts


def _times(spec: RunSpec) -> Float[np.ndarray, " times"]:
    if spec.times is not None:
        return np.asarray(spec.times, float)
    if spec.forward:
        return np.arange(_final_time(spec) + 1)
    start = 0.0 if spec.at is None else spec.at
    end = _final_time(spec)
    if end <= start:
        raise InvalidInputError(
            f"The final time `t` must pass the start, t = {start:g}; got {end:g}."
        )
    if spec.dt is None:
        return start + (end - start) * _SPACINGS[spec.spacing](spec.frames)
    count = (end - start) / spec.dt
    if count > _MOST:
        raise InvalidInputError(
            f"Steps of {spec.dt:g} are more than can be counted until t = {end:g}; "
            "choose a longer `dt`."
        )
    steps = max(1, round(count))
    stride = max(1, -(-steps // (spec.frames - 1)))
    kept = np.unique(np.append(np.arange(0, steps + 1, stride), steps))
    return start + spec.dt * kept


def _even(frames: int) -> Float[np.ndarray, " times"]:
    return np.linspace(0, 1, frames)


def _log(frames: int) -> Float[np.ndarray, " times"]:
    return np.append(0.0, np.geomspace(1, _FIRST, frames - 1)[::-1])


def _both(frames: int) -> Float[np.ndarray, " times"]:
    """As fine as either of half as many, so that neither end of time looks coarse."""
    half = max(2, (frames + 1) // 2)  # they share their first and their last
    return np.unique(np.append(_even(frames - half + 2), _log(half)))


_SPACINGS = {"even": _even, "log": _log, "both": _both}


def _final_time(spec: RunSpec) -> float:
    if spec.model is None or "t" in spec.model_fields_set:
        return spec.t
    return float(depth_of_model(spec.model, spec.model_layers))


def depth_of_model(model: str, chosen: Sequence[int] | None) -> int:
    """How many layers act, one after the other, for a unit of time each."""
    if chosen is not None:
        return len(chosen)
    return models.read(models.load(model)).sizes.n_layers
