"""Steps under noise: tokens are stepped onto frames and onto integer times.

Between steps a noisy path is unknown, and paths are drawn unit by unit of time.
"""

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from typing_extensions import override

from meanfield._array import is_concrete
from meanfield.errors import InvalidInputError
from meanfield.flows.stepping import MAX_STEPS, AbstractStepping, Coarse, Fixed
from meanfield.measures import AbstractMeasure

CLOSE = 1e-9  # of a step, within which two edges are one


def knows_noise(solver: diffrax.AbstractSolver) -> bool:
    """Whether a solver can step tokens under noise."""
    return isinstance(solver, diffrax.AbstractStratonovichSolver)


def landing(
    stepping: AbstractStepping, ts: Float[Array, " times"], jumps: Float[Array, " k"]
) -> AbstractStepping:
    """The stepping, prepared to land on all frames and integers between them.

    Fixed steps end at the multiples of their length, counted from time zero, so that
    they are the same however a run is cut.

    Raises:
        InvalidInputError: if times are traced, or too many units of time lie between.
    """
    if not (is_concrete(ts) and is_concrete(jumps)):
        raise InvalidInputError(
            "Steps under noise are laid out before the flow is traced: `ts` and the "
            "times of layers must be numbers, not results of a surrounding `jit` or "
            "`vmap`."
        )
    frames = np.unique(np.asarray(ts))
    start, end = float(frames[0]), float(frames[-1])
    if end - start > MAX_STEPS:
        raise InvalidInputError(
            f"Tokens under noise take a step in each unit of time; {end - start:g} "
            f"units are more than {MAX_STEPS}: measure time in larger units."
        )
    units = np.arange(np.ceil(start), np.floor(end) + 1)
    if isinstance(stepping, Fixed):
        return _laid_out(stepping, frames, units, np.asarray(jumps))
    places = _padded(_merged([frames, units], 0.0), ts.shape[0] + len(units))
    own = stepping.prepare(ts, jumps)
    return Landing(own, jnp.asarray(places.astype(ts.dtype)))


class Landing(AbstractStepping):
    """Another stepping whose steps also end at given places."""

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
        return landing(self.inner, ts, jumps)

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
    """The same, its steps coarse but for where they land."""
    # Abstract fields of diffrax look like arguments to a type checker.
    if not isinstance(controller, diffrax.ClipStepSizeController):
        return Coarse(controller=controller)  # pyright: ignore[reportCallIssue]
    inner = _coarse(controller.controller)
    return eqx.tree_at(lambda clip: clip.controller, controller, inner)


def _laid_out(
    stepping: Fixed, frames: np.ndarray, units: np.ndarray, jumps: np.ndarray
) -> Fixed:
    start, end, dt = float(frames[0]), float(frames[-1]), stepping.dt
    lattice = dt * np.arange(np.ceil(start / dt), np.floor(end / dt) + 1)
    inside = jumps[(jumps > start) & (jumps < end)].astype(float)
    edges = _merged([inside, frames.astype(float), units, lattice], CLOSE * dt)
    size = int(frames.size + inside.size + np.ceil(end - start) + 1)
    size += int(np.ceil((end - start) / dt * (1 - 1e-9))) + 1
    edges = _padded(edges, size).astype(frames.dtype)
    jumped = np.isin(edges, inside.astype(frames.dtype))
    laid = (jnp.asarray(edges), jnp.asarray(jumped))
    return eqx.tree_at(
        lambda s: (s.edges, s.jumped), stepping, laid, is_leaf=lambda x: x is None
    )


def _merged(groups: list[np.ndarray], close: float) -> np.ndarray:
    """All places in order, less those close to one of an earlier group."""
    kept = np.zeros(0)
    for group in groups:
        near = np.zeros(group.shape, bool)
        if kept.size:
            right = np.minimum(np.searchsorted(kept, group), kept.size - 1)
            left = np.maximum(right - 1, 0)
            gap = np.minimum(abs(kept[right] - group), abs(kept[left] - group))
            near = gap <= close
        kept = np.unique(np.concatenate([kept, group[~near]]))
    return kept


def _padded(places: np.ndarray, size: int) -> np.ndarray:
    """At least `size` places, the last repeated: segments then share one program."""
    return np.append(places, np.full(max(0, size - places.size), places[-1]))
