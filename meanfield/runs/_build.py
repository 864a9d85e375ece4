"""From a spec to a dynamics, an initial measure and times."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield import models
from meanfield._reading import read_text
from meanfield.dynamics import AbstractDynamics, Projected
from meanfield.errors import InvalidInputError
from meanfield.flows import (
    SAFETY,
    AbstractStepping,
    AbstractStop,
    BlowUp,
    Isotropic,
    Steady,
    adaptive,
    cfl,
    fixed,
)
from meanfield.flows import stops as ways_to_stop
from meanfield.linalg import psd_sqrt
from meanfield.measures import AbstractMeasure, Gaussian, Grid, Points
from meanfield.measures.families import family
from meanfield.measures.laws import law
from meanfield.measures.sampling import clouds
from meanfield.spec import KEYS, RunSpec

from ._attention import dynamics, model_coupling
from ._grids import box_in, box_name, law_on_grid, scott
from ._measures import as_measure, weighted
from ._parameters import Draw, columns, read_array, square, vector
from ._precision import dtype_of, typed
from ._source import source_dimension, source_measure, stored_measure

LAID_OUT = 10_000_000  # fixed steps of a segment, which are a list of times
_MOST = 2.0**53  # steps: whole numbers beyond are no floats
_FIRST = 1e-4  # of the time, where `spacing = log` has its first frame after the start


@dataclass(frozen=True)
class Member:
    """One flow: what moves, and by what."""

    dynamics: AbstractDynamics
    measure: AbstractMeasure


def dimension(spec: RunSpec) -> int:
    """The dimension that the keys fix; a number alone is a 1 × 1 matrix.

    A grid of starts lies in the plane.

    Raises:
        InvalidInputError: if two keys disagree.
        InputFileError: if a file cannot be read.
    """
    found = {} if spec.d is None else {"d": spec.d}
    matrices = [name for name, row in KEYS.items() if row.holds == "matrix"]
    for name in matrices:
        size = columns(getattr(spec, name))
        if size is not None:
            found[name if name == "mean" else f"columns of {name}"] = size
    if spec.init.startswith("@"):
        found["init"] = _tokens_from(spec.init[1:]).shape[1]
    if spec.source is not None:
        found["the run to start from"] = source_dimension(spec.source)
    if len(set(found.values())) > 1:
        listing = ", ".join(f"{name}: {size}" for name, size in found.items())
        raise InvalidInputError(f"The keys disagree on the dimension ({listing}).")
    plane = spec.starts is not None and spec.starts.startswith("grid")
    return next(iter(found.values()), 2 if plane else 1)


def member(spec: RunSpec, index: int = 0) -> Member:
    """The flow of draw `index` of a spec.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.
    """
    draw = Draw(spec.seed, index)
    d = 0 if spec.model is not None else dimension(spec)
    if spec.source is not None:
        measure = source_measure(spec)
    elif spec.model is not None:
        measure = _words(spec)
    else:
        measure = _start(spec, d, draw)
    return Member(moved_by(spec, d, draw), typed(spec, measure))


def members(spec: RunSpec) -> list[Member]:
    """All flows of a spec: one, or one for each draw or start.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.
    """
    if spec.starts is None:
        return [member(spec, i) for i in range(spec.draws or 1)]
    draw, d = Draw(spec.seed), dimension(spec)
    moves = moved_by(spec, d, draw)
    covariances = family(spec.starts, d, key=draw.key("starts"))
    factors, zero = jax.vmap(psd_sqrt)(covariances), jnp.zeros(d)
    return [Member(moves, typed(spec, Gaussian(zero, Y))) for Y in factors]


def moved_by(spec: RunSpec, d: int, draw: Draw) -> AbstractDynamics:
    """The dynamics of a spec in dimension `d`, in its floating-point format.

    Raises:
        InvalidInputError: if keys do not fit together.
    """
    moves = _attends(spec, d, draw)
    return Projected(moves) if spec.projected else moves


def _attends(spec: RunSpec, d: int, draw: Draw) -> AbstractDynamics:
    if spec.model is None:
        return typed(spec, dynamics(spec, d, draw))
    return models.layers(
        models.load(spec.model),
        layers=spec.model_layers,
        heads=spec.model_heads,
        coupling=model_coupling(spec),
        dtype=dtype_of(spec),
    )


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


def stepping(spec: RunSpec, ts: Float[np.ndarray, " times"]) -> AbstractStepping:
    """The stepping of a spec.

    Raises:
        InvalidInputError: if a fixed step needs more steps than are allowed.
        UnknownNameError: if there is no such solver.
    """
    if spec.measure == "grid":
        return cfl(spec.cfl or SAFETY, max_steps=spec.max_steps)
    noisy = bool(spec.noise) and spec.measure == "points"
    named = "solver" in spec.model_fields_set
    if spec.dt is None:
        solver = spec.solver if named or not noisy else "shark"
        return adaptive(solver, rtol=spec.rtol, max_steps=spec.max_steps)
    edges = np.append(ts[:: spec.segment], ts[-1])
    steps = float(np.max(np.diff(edges))) / spec.dt
    allowed = min(spec.max_steps, LAID_OUT)
    if steps > allowed:
        raise InvalidInputError(
            f"Steps of {spec.dt:g} are {steps:.3g} in a segment, and at most {allowed} "
            "are allowed (`max_steps`); choose a longer `dt`, or more `frames`."
        )
    return fixed(spec.dt, spec.solver if named else "shark" if noisy else "euler")


def noise(spec: RunSpec) -> Isotropic | None:
    """The noise of a spec; none if it is zero."""
    return Isotropic(spec.noise) if spec.noise else None


def stops(spec: RunSpec) -> tuple[AbstractStop, ...]:
    """When a spec lets its flow end early.

    Raises:
        InvalidInputError: if the number of a stop does not work.
        UnknownNameError: if there is no such stop.
    """
    steady = () if spec.steady is None else (Steady(spec.steady),)
    bound = () if spec.bound is None else (BlowUp(spec.bound),)
    return (*steady, *bound, *map(_stop, spec.stop or ()))


def _stop(text: str) -> AbstractStop:
    name, _, number = text.rpartition(":")
    return ways_to_stop[name](float(number))


def _final_time(spec: RunSpec) -> float:
    if spec.model is None or "t" in spec.model_fields_set:
        return spec.t
    if spec.model_layers is not None:
        return float(len(spec.model_layers))
    return float(models.read(models.load(spec.model)).sizes.n_layers)


def in_full(spec: RunSpec) -> RunSpec:
    """A spec with what its grid has by default, for all that goes on from it."""
    if spec.measure != "grid":
        return spec
    stored = None if spec.source is None else stored_measure(spec)
    if isinstance(stored, Grid):
        return spec.model_copy(update={"box": box_in(stored)})
    tokens = stored if isinstance(stored, Points) else _tokens_of_file(spec)
    found: dict[str, Any] = {"box": box_name(spec)}
    if tokens is not None:
        found["bandwidth"] = spec.bandwidth or scott(tokens)
    return spec.model_copy(update=found)


def _tokens_of_file(spec: RunSpec) -> Points | None:
    """Tokens that a file brings, if one does."""
    if not spec.init.startswith("@"):
        return None
    return _points(spec, jax.device_put(_tokens_from(spec.init[1:])))


def _start(spec: RunSpec, d: int, draw: Draw) -> AbstractMeasure:
    tokens = _tokens_of_file(spec)
    if tokens is not None:
        return as_measure(spec, tokens)
    mean, cov = vector("mean", spec.mean, d), square("cov", spec.cov, d, draw)
    frame = Gaussian.from_moments(mean, cov)
    if spec.measure == "grid":
        return law_on_grid(spec, law(spec.init, d, key=draw.key("init")), frame)
    if spec.measure == "gaussian" and spec.init == "gaussian":
        return frame
    cloud = clouds[spec.init](spec.n, d, key=draw.key("init"))
    return as_measure(spec, _points(spec, _spread(frame, cloud)))


@jax.jit
def _spread(frame: Gaussian, cloud: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return frame.mean[None, :] + cloud @ frame.factor.T


def _words(spec: RunSpec) -> AbstractMeasure:
    text = str(spec.text)
    longest = models.LONGEST_TEXT
    words = read_text(Path(text[1:]), longest=longest) if text[:1] == "@" else text
    checkpoint = models.load(str(spec.model))
    x = models.embed(checkpoint, words, dtype=dtype_of(spec)).tokens.x
    return as_measure(spec, _points(spec, x))


def _points(spec: RunSpec, x: Array) -> Points:
    """Tokens with the weights of a spec, their positions in order."""
    n = x.shape[0]
    weights = np.ones(n) if spec.weights is None else vector("weights", spec.weights, n)
    position = np.arange(1, n + 1) / n
    return weighted(spec, x, *jax.device_put((weights, position)))


def _tokens_from(path: str) -> np.ndarray:
    x = read_array(path)
    return x[:, None] if x.ndim == 1 else np.atleast_2d(x)
