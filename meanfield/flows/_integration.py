"""One prepared flow through the solver, and the names of its ending."""

import functools
from typing import Any, NamedTuple, cast

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from meanfield._array import frozen
from meanfield._typing import PRNGKey, SolverTime
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.measures import AbstractMeasure

from ._compiled import compiled
from ._trajectory import Trajectory
from .motions import Noise, motion_of, typed
from .stepping import AbstractStepping
from .watch import (
    AbstractJudge,
    AbstractStop,
    BlowUpTime,
    Escape,
    Foretold,
    Watch,
    WatchState,
    foresees,
    is_bounded_by_kind,
    never,
)


class VectorField(eqx.Module):
    """The time derivative of a measure's coordinates.

    Up to its last time, and at it, a flow has the parameters from before: those that
    begin there, as a layer may, are for the flow that goes on.
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    last: Float[Array, ""]
    noise: Noise = None

    @eqx.filter_jit  # solvers ask for it four times before they compile: traced once
    def __call__(self, t: SolverTime, y: PyTree, args: PyTree) -> PyTree:
        """`d(coordinates)/dt`."""
        del args
        mu = self.mu0.at(y)
        latest = jax.lax.stop_gradient(self._latest())
        field = self.dynamics.field(jnp.where(t > latest, latest, t), mu)
        return motion_of(mu).drift(mu, field, self.noise)

    def _latest(self) -> Float[Array, ""]:
        """The last time, or just before it where parameters jump there."""
        jumps = self.dynamics.jumps.astype(self.last.dtype)
        before = jnp.nextafter(jax.lax.stop_gradient(self.last), -jnp.inf)
        return jnp.where(jnp.any(jumps == self.last), before, self.last)


class Problem(eqx.Module):
    """All that defines a flow but its times.

    Examples:
        >>> from meanfield import Gaussian, attentions, fixed
        >>> from meanfield.flows import Problem, prepared
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> problem, _ = prepared(
        ...     softmax, start, [0.0, 1.0], stepping=fixed(0.1), stop=None, since=None
        ... )
        >>> isinstance(problem, Problem), problem.stepping.max_steps
        (True, 11)
    """

    dynamics: AbstractDynamics
    mu0: AbstractMeasure
    stepping: AbstractStepping
    stops: tuple[AbstractStop, ...]
    since: Float[Array, ""]
    due: BlowUpTime
    noise: Noise
    key: PRNGKey | None
    iterates: bool = eqx.field(static=True)


def integrated(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter = diffrax.NoProgressMeter(),
) -> Trajectory:
    """The trajectory of a prepared flow, to be called inside `jit`."""
    dynamics, mu0, stepping = problem.dynamics, problem.mu0, problem.stepping
    noise = typed(problem.noise, ts.dtype)
    moving = diffrax.ODETerm(VectorField(dynamics, mu0, ts[-1], noise))
    terms, solver = motion_of(mu0).driven(
        mu0, moving, stepping.solver, noise, problem.key
    )
    frames, end = diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)
    watch = _watch(problem, ts, noise)
    solution = diffrax.diffeqsolve(
        terms,
        solver,
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=mu0.coordinates,
        saveat=diffrax.SaveAt(subs=[frames, end], controller_state=True),
        stepsize_controller=watch,
        adjoint=adjoint,
        max_steps=stepping.max_steps,
        throw=False,
        progress_meter=meter,
    )
    return _trajectory(problem, ts, solution, _verdict(solution, watch.judge))


def _watch(problem: Problem, ts: Float[Array, " times"], noise: Noise) -> Watch:
    """What chooses the steps, and ends the flow."""
    dynamics, mu0 = problem.dynamics, problem.mu0
    jumps = jax.lax.stop_gradient(dynamics.jumps)
    law, still, kicks = frozen(dynamics), frozen(mu0), frozen(noise)
    # Abstract fields of diffrax look like arguments to a type checker.
    return Watch(  # pyright: ignore[reportCallIssue]
        controller=problem.stepping.controller(mu0, ts, jumps),
        dynamics=law,
        mu0=still,
        noise=kicks,
        judge=_judge(problem, ts),
        stops=problem.stops,
        iterates=problem.iterates,
    )


def _judge(problem: Problem, ts: Float[Array, " times"]) -> AbstractJudge[Any]:
    """Who says that growth is a blow-up; none is looked for where none can be."""
    if foresees(problem.stepping, problem.mu0, problem.noise):
        return Foretold(problem.due)
    law, still = frozen(problem.dynamics), frozen(problem.mu0)
    if is_bounded_by_kind(law, still, ts):
        return Foretold(never(ts.dtype))
    return Escape(law, still, problem.since)


integrate = compiled(integrated)


class _Verdict(NamedTuple):
    code: Array
    blow_up: BlowUpTime
    watched: WatchState


def _verdict(solution: diffrax.Solution, judge: AbstractJudge) -> _Verdict:
    """The one name for what the solver and the watch saw."""
    watched = cast(WatchState, solution.controller_state)
    too_many = solution.result == diffrax.RESULTS.max_steps_reached
    code = jnp.where(too_many, int(Status.MAX_STEPS), watched.code)
    other = ~too_many & (watched.code == int(Status.FINISHED))
    other &= solution.result != diffrax.RESULTS.successful
    code = jnp.where(other, int(Status.NOT_FINITE), code)
    reached = (code == int(Status.FINISHED)) | (code == int(Status.STEADY))
    unsure = reached & judge.is_unsure(watched.growth)
    code = jnp.where(unsure, int(Status.UNRESOLVED), code)
    found = watched.by_growth & (code == int(Status.BLOW_UP))
    when = judge.when(watched.growth)
    when = jax.tree.map(functools.partial(jnp.where, found), when, never(when[0].dtype))
    return _Verdict(code, when, watched)


def _trajectory(
    problem: Problem,
    ts: Float[Array, " times"],
    solution: diffrax.Solution,
    verdict: _Verdict,
) -> Trajectory:
    (frame_ts, end_ts), (frames, ends) = cast(tuple, (solution.ts, solution.ys))
    n_saved = jnp.sum(jnp.isfinite(frame_ts))
    last = jax.tree.map(lambda leaf: leaf[-1], ends)
    return Trajectory(
        ts=ts,
        coordinates=_repeat_last(frames, last, n_saved),
        start=problem.mu0,
        last=last,
        code=verdict.code,
        stop_time=end_ts[-1],
        n_saved=n_saved,
        blow_up=verdict.blow_up,
        n_accepted=verdict.watched.n_accepted,
        n_rejected=verdict.watched.n_rejected,
        residual=verdict.watched.residual,
        missed=verdict.watched.missed,
        lapse=verdict.watched.lapse,
        predicted=problem.due,
    )


def _repeat_last(
    frames: PyTree[Array], last: PyTree[Array], n_saved: Int[Array, ""]
) -> PyTree[Array]:
    """Frames, with those from `n_saved` on replaced by `last`."""

    def fill(leaf: Array, end: Array) -> Array:
        real = jnp.arange(leaf.shape[0]) < n_saved
        return jnp.where(real.reshape(-1, *[1] * end.ndim), leaf, end[None])

    return jax.tree.map(fill, frames, last)
