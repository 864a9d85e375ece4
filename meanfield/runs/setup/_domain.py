"""The dimension of the space and the frame times of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from meanfield import models
from meanfield.errors import InvalidInputError
from meanfield.spec import HEADWISE_KEYS, KEYS, RunSpec, heads_of

from ._context import context_dimension, source_dimension
from ._files import read_states
from ._layers import drift_sizes
from ._parameters import columns, dtype_of, entries

_MAX_STEPS = 2.0**53  # above this number, floats do not represent every integer
_FIRST = 1e-4  # time of the second frame for `spacing = log`, as a fraction of the span
_FIRST_TIME = 0.01  # its time in arclength, if that is earlier


def dimension(spec: RunSpec, contexts: Sequence[str | None]) -> int:
    """The dimension that keys fix, or else `free_dimension`.

    Args:
        spec: the spec of a run.
        contexts: the names of its contexts.

    Raises:
        InvalidInputError: if two keys disagree.
        InputFileError: if a file cannot be read.
    """
    sizes: dict[str, int | None] = {"d": spec.d}
    for name in (name for name, row in KEYS.items() if row.holds == "matrix"):
        size, is_vector = _size(name, getattr(spec, name)), name.endswith("mean")
        sizes[name if is_vector else f"columns of {name}"] = size
    sizes |= drift_sizes(spec.drift)
    if spec.model is not None:
        network = models.read(models.load(spec.model))
        sizes[f"the model {spec.model}"] = network.sizes.dimension
    n_rows, init = None, spec.init
    if init.startswith("@"):
        n_rows, sizes["init"] = read_states(init[1:]).shape
    if spec.source is not None:
        sizes["the run to start from"] = source_dimension(spec.source)
    for context in filter(None, contexts):
        sizes[f"the context {context}"] = context_dimension(context)
    dimensions = {name: size for name, size in sizes.items() if size is not None}
    if len(set(dimensions.values())) > 1:
        text = ", ".join(f"{name}: {size}" for name, size in dimensions.items())
        advice = "make them agree, or leave one of the keys out"
        if n_rows in {*dimensions.values()} - {sizes.get("init")}:
            advice = f"`{init[1:]}` must have a row for each token: transpose it"
        raise InvalidInputError(
            f"The keys imply different dimensions ({text}); {advice}."
        )
    return next(iter(dimensions.values()), spec.free_dimension)


def _size(name: str, value: Any) -> int | None:
    """The dimension that a value fixes; for several heads, the first that one fixes."""
    if name.endswith("mean"):
        return entries(value)
    parts = heads_of(value) if name in HEADWISE_KEYS else None
    sizes = [columns(part) for part in ([value] if parts is None else parts)]
    return next((size for size in sizes if size is not None), None)


def times(spec: RunSpec) -> Float[np.ndarray, " times"]:
    """The times of the frames, which are multiples of a fixed step if there is one.

    Raises:
        InvalidInputError: if times are not increasing in the precision of the spec.
    """
    start, end, dt, frames = spec.at or 0.0, spec.t, spec.dt, spec.frames
    if spec.model is not None and "t" not in spec.model_fields_set:
        end = float(depth_of_model(spec.model, spec.model_layers))
    if spec.times is not None:
        ts = np.asarray(spec.times, float)
    elif spec.forward:
        ts = np.arange(end + 1)
    elif end <= start:
        raise InvalidInputError(
            f"`t` must be later than the initial time {start:g}; got {end:g}."
        )
    elif dt is None:
        span, log = end - start, spec.clock is not None
        first = min(_FIRST, _FIRST_TIME / span) if log else _FIRST
        ts = start + span * _SPACINGS[spec.frame_spacing](frames, first)
    else:
        ts = start + dt * _multiples(dt, start, end, frames=frames)
    ts = ts.astype(dtype_of(spec.precision))
    if not np.all(ts[1:] > ts[:-1]):
        raise InvalidInputError(
            f"The frames are too close together for {spec.precision} precision; lower "
            "`frames`."
        )
    return ts


def _multiples(
    dt: float, start: float, end: float, *, frames: int
) -> Int[np.ndarray, " times"]:
    """The number of fixed steps before each frame."""
    count = (end - start) / dt
    if count > _MAX_STEPS:
        raise InvalidInputError(
            f"Steps of length {dt:g} up to t = {end:g} are too many to count; choose a "
            "larger `dt`."
        )
    steps = max(1, round(count))
    stride = max(1, -(-steps // (frames - 1)))
    return np.unique(np.append(np.arange(0, steps + 1, stride), steps))


def _even(frames: int, first: float) -> Float[np.ndarray, " times"]:
    del first
    return np.linspace(0, 1, frames)


def _log(frames: int, first: float) -> Float[np.ndarray, " times"]:
    return np.append(0.0, np.geomspace(1, first, frames - 1)[::-1])


def _even_and_log(frames: int, first: float) -> Float[np.ndarray, " times"]:
    """Merges two halves of the frames, one spaced evenly and one logarithmically."""
    half = max(2, (frames + 1) // 2)  # both halves contain 0 and 1
    return np.unique(np.append(_even(frames - half + 2, first), _log(half, first)))


_SPACINGS = {"even": _even, "log": _log, "both": _even_and_log}


def depth_of_model(model: str, layers: Sequence[int] | None) -> int:
    """The number of layers that act; each acts for a unit of time."""
    if layers is not None:
        return len(layers)
    return models.read(models.load(model)).sizes.n_layers
