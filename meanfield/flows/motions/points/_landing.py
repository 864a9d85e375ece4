"""Steps of tokens under noise, which land on frames and on integer times.

A noisy path is not known between steps, so steps must land on frames; and paths are
drawn separately for each unit of time.
"""

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield.errors import InvalidInputError
from meanfield.flows.stepping import MAX_STEPS, AbstractStepping, CoarseSteps, Fixed
from meanfield.measures import AbstractMeasure

CLOSE = 1e-9  # edges of steps closer than this fraction of a step are merged


def is_stochastic_solver(solver: diffrax.AbstractSolver) -> bool:
    """Whether a solver supports tokens under noise."""
    return isinstance(solver, diffrax.AbstractStratonovichSolver)


def prepare_landing(
    stepping: AbstractStepping, ts: Float[Array, " times"], jumps: Float[Array, " k"]
) -> AbstractStepping:
    """The stepping, prepared to land on all frames and on the integers between them.

    Fixed steps also end at the multiples of their length, counted from time zero, so
    that they do not depend on how a run is split into segments.

    Raises:
        InvalidInputError: if times are traced, or the flow lasts too many time units.
    """
    if not (is_concrete(ts) and is_concrete(jumps)):
        raise InvalidInputError(
            "`ts` and the times of layers must be concrete if tokens have noise; got "
            "values traced by `jit` or `vmap`. Call `flow` outside `jit` and `vmap`."
        )
    frames = np.unique(np.asarray(ts))
    start, end = float(frames[0]), float(frames[-1])
    if end - start > MAX_STEPS:
        raise InvalidInputError(
            f"Under noise, `ts` must span at most {MAX_STEPS} units of time, as each "
            f"unit takes a step; got {end - start:g}. Measure time in larger units."
        )
    units = np.arange(np.ceil(start), np.floor(end) + 1)
    if isinstance(stepping, Fixed):
        return _schedule_fixed(stepping, frames, units, np.asarray(jumps))
    places = _pad_places(_merge_places([frames, units], 0.0), ts.shape[0] + len(units))
    inner = stepping.prepare(ts, jumps)
    return Landing(inner, jnp.asarray(places.astype(ts.dtype)))


class Landing(AbstractStepping):
    """Wraps an `AbstractStepping` so that steps also end at the times `places`."""

    inner: AbstractStepping
    places: Float[Array, " places"]

    @property
    @override
    def solver(self) -> diffrax.AbstractSolver:
        return self.inner.solver

    @property
    @override
    def max_steps(self) -> int:
        return self.inner.max_steps

    @override
    def relative_error(self, dtype: jnp.dtype) -> float:
        return self.inner.relative_error(dtype)

    @override
    def prepare(
        self, ts: Float[Array, " times"], jumps: Float[Array, " k"]
    ) -> "AbstractStepping":
        return prepare_landing(self.inner, ts, jumps)

    @override
    def controller(
        self,
        mu0: AbstractMeasure,
        ts: Float[Array, " times"],
        jumps: Float[Array, " k"],
    ) -> diffrax.AbstractAdaptiveStepSizeController:
        inner = self.inner.controller(mu0, ts, jumps)
        return diffrax.ClipStepSizeController(_coarse(inner), self.places)


def _coarse(
    controller: diffrax.AbstractAdaptiveStepSizeController,
) -> diffrax.AbstractAdaptiveStepSizeController:
    """Rounds steps of a controller down to few digits, except at given end times."""
    # Type checkers mistake the abstract fields of diffrax for required arguments.
    if not isinstance(controller, diffrax.ClipStepSizeController):
        return CoarseSteps(controller=controller)  # pyright: ignore[reportCallIssue]
    inner = _coarse(controller.controller)
    return eqx.tree_at(lambda clip: clip.controller, controller, inner)


def _schedule_fixed(
    stepping: Fixed, frames: np.ndarray, units: np.ndarray, jumps: np.ndarray
) -> Fixed:
    start, end, dt = float(frames[0]), float(frames[-1]), stepping.dt
    lattice = dt * np.arange(np.ceil(start / dt), np.floor(end / dt) + 1)
    inner_jumps = jumps[(jumps > start) & (jumps < end)].astype(float)
    edges = _merge_places(
        [inner_jumps, frames.astype(float), units, lattice], CLOSE * dt
    )
    size = int(frames.size + inner_jumps.size + np.ceil(end - start) + 1)
    size += int(np.ceil((end - start) / dt * (1 - 1e-9))) + 1
    edges = _pad_places(edges, size).astype(frames.dtype)
    is_jump = np.isin(edges, inner_jumps.astype(frames.dtype))
    schedule = (jnp.asarray(edges), jnp.asarray(is_jump))
    return eqx.tree_at(
        lambda s: (s.edges, s.is_jump), stepping, schedule, is_leaf=lambda x: x is None
    )


def _merge_places(groups: list[np.ndarray], close: float) -> np.ndarray:
    """Sorts the times of all groups; drops times close to one of an earlier group."""
    places = np.zeros(0)
    for group in groups:
        is_close = np.zeros(group.shape, bool)
        if places.size:
            right = np.minimum(np.searchsorted(places, group), places.size - 1)
            left = np.maximum(right - 1, 0)
            gap = np.minimum(abs(places[right] - group), abs(places[left] - group))
            is_close = gap <= close
        places = np.unique(np.concatenate([places, group[~is_close]]))
    return places


def _pad_places(places: np.ndarray, size: int) -> np.ndarray:
    """Pads with copies of the last place, so that segments share one program."""
    return np.append(places, np.full(max(0, size - places.size), places[-1]))
