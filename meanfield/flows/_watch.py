"""A step-size controller that watches the flow and ends it for a named reason.

It wraps another controller, so that all of it runs inside the solver's own loop: no
host callback, no second pass. It never changes an accepted step.
"""

from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree
from typing_extensions import override

from meanfield._typing import Scalar
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from ._growth import Record, blows_up, empty_record, push
from ._stop import AbstractStop, Seen
from ._trajectory import Status


class WatchState(NamedTuple):
    """What is remembered from step to step."""

    inner: PyTree[Array]
    t0: Float[Array, ""]
    record: Record
    memories: tuple[PyTree[Array], ...]
    residual: Float[Array, ""]
    code: Int[Array, ""]
    n_accepted: Int[Array, ""]
    n_rejected: Int[Array, ""]


class Attempt(NamedTuple):
    """One step that the solver tried."""

    t: Float[Array, ""]
    y: PyTree[Array]
    keep: Bool[Array, ""]
    jump: Bool[Array, ""] | bool


class Watch(diffrax.AbstractAdaptiveStepSizeController[WatchState, None]):
    """Ends a flow at a blow-up, at a stop, unconverged, or not finite."""

    controller: diffrax.AbstractStepSizeController
    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    stops: tuple[AbstractStop, ...]
    iterates: bool = eqx.field(static=True)

    @property
    def rtol(self) -> Scalar:
        """The tolerance of the wrapped controller, which implicit solvers read."""
        return self.controller.rtol

    @property
    def atol(self) -> Scalar:
        """Likewise."""
        return self.controller.atol

    @property
    def norm(self):  # noqa: ANN201
        """Likewise."""
        return self.controller.norm

    @override
    def wrap(self, direction):
        wrapped = self.controller.wrap(direction)
        return eqx.tree_at(lambda watch: watch.controller, self, wrapped)

    @override
    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):  # noqa: PLR0913
        span = t1 - t0
        t1, inner = self.controller.init(
            terms, t0, t1, y0, dt0, args, func, error_order
        )
        seen, residual, converged = self._look(t0, jax.lax.stop_gradient(y0))
        zero = jnp.asarray(0)
        fine, missed = int(Status.FINISHED), int(Status.UNCONVERGED)
        state = WatchState(
            inner,
            t0,
            empty_record(t0, jnp.log(seen.size)),
            tuple(stop.start(seen, span) for stop in self.stops),
            residual,
            jnp.where(converged, fine, missed),
            zero,
            zero,
        )
        return t1, state

    @override
    def adapt_step_size(  # noqa: PLR0913
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        state = controller_state
        keep, next_t0, next_t1, jump, inner, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, state.inner
        )
        y1 = jax.lax.stop_gradient(y1_candidate)
        # Moments must be finite too, or fields that divide by them vanish in silence.
        finite = _all_finite(y1) & jnp.isfinite(self.mu0.norm(y1) ** 2)
        # A fixed step accepts anything: the last good state must survive it.
        taken = keep & finite & (state.code == int(Status.FINISHED))
        vanished = ~keep & (next_t1 - next_t0 <= _shortest(next_t0))
        seen = self._after(t1 - t0, Attempt(t1, y1, taken, jump), state)
        stuck = jnp.where(finite, int(Status.MAX_STEPS), int(Status.NOT_FINITE))
        code = jnp.where(vanished | (keep & ~finite), stuck, seen.code)
        state = seen._replace(inner=inner, code=code)
        ends = code != int(Status.FINISHED)
        result = diffrax.RESULTS.where(ends, diffrax.RESULTS.event_occurred, result)
        next_t0 = jnp.where(taken, next_t0, t0)
        return taken, next_t0, next_t1, jump, state, result

    def _after(self, dt: Array, step: "Attempt", state: WatchState) -> WatchState:
        """The state after an attempted step; a rejected one only counts."""
        seen, residual, converged = self._look(step.t, step.y)
        log_size = jnp.log(seen.size)
        record = push(state.record, step.t, log_size, dt)
        code = jnp.asarray(int(Status.FINISHED))
        memories = []
        for stop, memory in zip(self.stops, state.memories, strict=True):
            memory, ends = stop.update(memory, seen)  # noqa: PLW2901
            memories.append(memory)
            code = jnp.where(ends, int(stop.status), code)
        code = jnp.where(blows_up(record, state.t0), int(Status.BLOW_UP), code)
        code = jnp.where(converged, code, int(Status.UNCONVERGED))
        # Growth on two sides of a jump follows two laws.
        fresh = empty_record(step.t, log_size)
        record = jax.tree.map(lambda a, b: jnp.where(step.jump, a, b), fresh, record)
        accepted = state._replace(
            record=record,
            memories=tuple(memories),
            residual=jnp.maximum(state.residual, residual),
            code=code,
            n_accepted=state.n_accepted + 1,
        )
        rejected = state._replace(n_rejected=state.n_rejected + 1)
        return jax.tree.map(lambda a, b: jnp.where(step.keep, a, b), accepted, rejected)

    def _look(
        self, t: Array, y: PyTree[Array]
    ) -> tuple[Seen, Float[Array, ""], Bool[Array, ""]]:
        """Size, and what a field evaluation shows if anyone asks for one."""
        size = self.mu0.norm(y)
        nothing = jnp.zeros_like(size)
        seen = Seen(t, jnp.any(self.dynamics.jumps > t), size, nothing)
        if not (self.iterates or self._watches_speed):
            return seen, nothing, jnp.asarray(True)
        mu = self.mu0.at(y)
        field = self.dynamics.field(t, mu)
        speed = self.mu0.norm(mu.transport(field)) if self._watches_speed else nothing
        convergence = field.convergence or Convergence(nothing, nothing)
        converged = convergence.residual <= convergence.tolerance
        return seen._replace(speed=speed), convergence.residual, converged

    @property
    def _watches_speed(self) -> bool:
        return any(stop.watches_speed for stop in self.stops)


def _shortest(t: Float[Array, ""]) -> Float[Array, ""]:
    """A step that rounding of the time would eat."""
    return 4 * jnp.finfo(t.dtype).eps * jnp.abs(t)


def _all_finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack(leaves))
