"""Integration of one prepared flow by diffrax, and its ending."""

import functools
from typing import Any, NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield._array import stop_gradient
from meanfield._typing import PRNGKey, SolverTime, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from ._compilation import field_at
from ._trajectory import Trajectory
from .motions import Noise, cast_noise, motion_of
from .stepping import AbstractStepping
from .watch import (
    AbstractDetector,
    AbstractGrowthDetector,
    AbstractStop,
    BlowUpTime,
    GrowthDetector,
    PredictedBlowUp,
    Watch,
    WatchState,
    is_bounded_by_kind,
    needs_pilot,
    no_blow_up,
)


class VectorField(eqx.Module):
    """The time derivative of a measure's coordinates.

    If parameters jump at the last time, as between layers, this flow uses their values
    before the jump. The flow that continues this one uses the values after the jump.
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    last: Float[Array, ""]
    noise: Noise = None

    @eqx.filter_jit  # a solver calls this four times, but `jit` traces it only once
    def __call__(self, t: SolverTime, y: PyTree, args: PyTree) -> PyTree:
        """The derivative `d(coordinates)/dt` at time `t` and coordinates `y`."""
        del args
        mu = self.mu0.replace_coordinates(y)
        latest = jax.lax.stop_gradient(self._latest_time())
        t = jnp.where(t > latest, latest, t)
        return evaluate_field(self.dynamics, mu, t, self.noise)[0]

    def _latest_time(self) -> Float[Array, ""]:
        """The last time, or the float just before it if parameters jump there."""
        jumps = self.dynamics.jumps.astype(self.last.dtype)
        previous_time = jnp.nextafter(jax.lax.stop_gradient(self.last), -jnp.inf)
        return jnp.where(jnp.any(jumps == self.last), previous_time, self.last)


@eqx.filter_jit  # traced once, before the flow is compiled
def evaluate_field(
    dynamics: AbstractDynamics, mu: AbstractMeasure, t: Time, noise: Noise
) -> tuple[PyTree, Convergence | None]:
    """The rates of the coordinates of a measure, and the residual of its field."""
    field = field_at(dynamics, t, mu)
    return motion_of(mu).drift(mu, field, noise), field.convergence


class Problem(eqx.Module):
    """Everything that defines a flow except the times of its frames.

    Examples:
        >>> from meanfield import Gaussian, attentions, fixed
        >>> from meanfield.flows import Problem, prepare_problem
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> problem, _ = prepare_problem(
        ...     softmax,
        ...     start,
        ...     [0.0, 1.0],
        ...     stepping=fixed(0.1),
        ...     stop=None,
        ...     run_start=None,
        ... )
        >>> isinstance(problem, Problem), problem.stepping.max_steps
        (True, 11)
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    stepping: AbstractStepping
    stops: tuple[AbstractStop, ...]
    run_start: Float[Array, ""]
    predicted_blow_up: BlowUpTime
    noise: Noise
    key: PRNGKey | None
    is_iterative: bool = eqx.field(static=True)


def integrate_in_jit(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter = diffrax.NoProgressMeter(),
) -> Trajectory:
    """The trajectory of a prepared flow; call it inside `jit`."""
    detector = detector_of(problem, ts, GrowthDetector)
    return solve(problem, ts, adjoint, meter, detector)[0]


def solve(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter,
    detector: AbstractDetector,
) -> tuple[Trajectory, PyTree]:
    """The trajectory of a prepared flow, and the last memory of its detector."""
    dynamics, mu0, stepping = problem.dynamics, problem.mu0, problem.stepping
    noise = cast_noise(problem.noise, ts.dtype)
    moving = diffrax.ODETerm(VectorField(dynamics, mu0, ts[-1], noise))
    terms, solver = motion_of(mu0).add_noise(
        mu0, moving, stepping.solver, noise, problem.key
    )
    frames, end = diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)
    solution = diffrax.diffeqsolve(
        terms,
        solver,
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=mu0.coordinates,
        saveat=diffrax.SaveAt(subs=[frames, end], controller_state=True),
        stepsize_controller=_watch(problem, ts, noise, detector),
        adjoint=adjoint,
        max_steps=stepping.max_steps,
        throw=False,
        progress_meter=meter,
    )
    ending = _ending(solution, detector)
    return _trajectory(problem, ts, solution, ending), ending.watch_state.growth


def _watch(
    problem: Problem,
    ts: Float[Array, " times"],
    noise: Noise,
    detector: AbstractDetector,
) -> Watch:
    """The controller that chooses the steps and ends the flow."""
    dynamics, mu0 = problem.dynamics, problem.mu0
    jumps = jax.lax.stop_gradient(dynamics.jumps)
    law, frozen_mu0, frozen_noise = (
        stop_gradient(dynamics),
        stop_gradient(mu0),
        stop_gradient(noise),
    )
    # Type checkers mistake the abstract fields of diffrax for required arguments.
    return Watch(  # pyright: ignore[reportCallIssue]
        controller=problem.stepping.controller(mu0, ts, jumps),
        dynamics=law,
        mu0=frozen_mu0,
        noise=frozen_noise,
        detector=detector,
        stops=problem.stops,
        span=jax.lax.stop_gradient(ts[-1] - ts[0]),
        is_iterative=problem.is_iterative,
    )


def detector_of(
    problem: Problem, ts: Float[Array, " times"], kind: type[AbstractGrowthDetector]
) -> AbstractDetector[Any]:
    """The blow-up detector, which detects nothing if a blow-up is ruled out."""
    if needs_pilot(problem.stepping, problem.mu0, problem.noise):
        return PredictedBlowUp(problem.predicted_blow_up)
    law, frozen_mu0 = stop_gradient(problem.dynamics), stop_gradient(problem.mu0)
    if is_bounded_by_kind(law, frozen_mu0, ts):
        return PredictedBlowUp(no_blow_up(ts.dtype))
    return kind(law, frozen_mu0, problem.run_start)


class _Ending(NamedTuple):
    code: Array
    blow_up: BlowUpTime
    watch_state: WatchState


def _ending(solution: diffrax.Solution, detector: AbstractDetector) -> _Ending:
    """The single ending that follows from the results of the solver and the watch."""
    watch_state = cast(WatchState, solution.controller_state)
    too_many = solution.result == diffrax.RESULTS.max_steps_reached
    code = jnp.where(too_many, int(Status.MAX_STEPS), watch_state.code)
    is_not_finite = ~too_many & (watch_state.code == int(Status.FINISHED))
    is_not_finite &= solution.result != diffrax.RESULTS.successful
    code = jnp.where(is_not_finite, int(Status.NOT_FINITE), code)
    is_complete = (code == int(Status.FINISHED)) | (code == int(Status.STEADY))
    is_unsure = is_complete & detector.is_unsure(watch_state.growth)
    code = jnp.where(is_unsure, int(Status.UNRESOLVED), code)
    has_t_star = watch_state.is_detected & (code == detector.ending)
    blow_up = detector.estimate_blow_up(watch_state.growth)
    blow_up = jax.tree.map(
        functools.partial(jnp.where, has_t_star), blow_up, no_blow_up(blow_up[0].dtype)
    )
    return _Ending(code, blow_up, watch_state)


def _trajectory(
    problem: Problem,
    ts: Float[Array, " times"],
    solution: diffrax.Solution,
    ending: _Ending,
) -> Trajectory:
    (frame_ts, end_ts), (frames, ends) = cast(tuple, (solution.ts, solution.ys))
    frames = motion_of(problem.mu0).project(problem.mu0, frames)
    n_saved = jnp.sum(jnp.isfinite(frame_ts))
    last = jax.tree.map(lambda leaf: leaf[-1], ends)
    return Trajectory(
        ts=ts,
        coordinates=_repeat_last(frames, last, n_saved),
        start=problem.mu0,
        last=last,
        code=ending.code,
        stop_time=end_ts[-1],
        n_saved=n_saved,
        blow_up=ending.blow_up,
        n_accepted=ending.watch_state.n_accepted,
        n_rejected=ending.watch_state.n_rejected,
        residual=ending.watch_state.residual,
        sum_error=ending.watch_state.sum_error,
        convergence_failure=ending.watch_state.convergence_failure,
        prediction=problem.predicted_blow_up,
    )


def _repeat_last(
    frames: PyTree[Array], last: PyTree[Array], n_saved: Int[Array, ""]
) -> PyTree[Array]:
    """Replaces all frames from index `n_saved` on with the state `last`."""

    def fill(leaf: Array, end: Array) -> Array:
        real = jnp.arange(leaf.shape[0]) < n_saved
        return jnp.where(real.reshape(-1, *[1] * end.ndim), leaf, end[None])

    return jax.tree.map(fill, frames, last)
