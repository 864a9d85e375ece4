"""The flow of a measure under a dynamics, for any representation."""

import functools
from dataclasses import replace

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield._array import float_array, frozen, is_concrete
from meanfield._typing import Numbers, PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from ._compiled import outlined
from ._guard import guarded
from ._integration import Problem, integrate
from ._refusals import (
    check_adjoint,
    check_moved,
    check_options,
    check_precision,
    check_progress,
)
from ._trajectory import M, Trajectory
from .motions import Noise, motion_of, present
from .stepping import AbstractStepping
from .watch import (
    AbstractStop,
    BlowUpTime,
    forerunner,
    foresees,
    foretold,
    is_bounded,
    never,
)

Stop = AbstractStop | tuple[AbstractStop, ...] | None


def flow(  # noqa: PLR0913 (all that defines a flow, and no more)
    dynamics: AbstractDynamics,
    mu0: M,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None = None,
    stop: Stop = None,
    since: float | None = None,
    due: BlowUpTime | None = None,
    until: float | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    noise: Noise = None,
    key: PRNGKey | None = None,
    progress: diffrax.AbstractProgressMeter | None = None,
) -> Trajectory[M]:
    r"""Integrates $\partial_t\mu + \nabla\cdot(\mu\, v[\mu]) = \kappa\Delta\mu$.

    From `mu0`, with $\kappa = 0$ unless there is noise.

    Pure: `vmap` it over initial measures, differentiate it in reverse mode (forward
    mode with `adjoint=diffrax.ForwardMode()`). A finite-time blow-up always ends it,
    as a result with its `t_star`. Never raises for what happens on the way: see
    `Trajectory.raise_for_status`. A derivative of a flow that failed raises.

    Args:
        dynamics: gives the field of a measure.
        mu0: the measure at `ts[0]`.
        ts: times of the frames, not decreasing; the first is the start.
        stepping: `adaptive()` if `None`, or `fixed(dt)`; for a `Grid`, `cfl()`; for
            tokens whose velocities jump, as under `esp`, 128 steps of one length.
        since: when the run began, if `ts` continues one; a blow-up is judged against
            the time elapsed since. `ts[0]` if `None`.
        due: when the exact flow blows up, as `Trajectory.due` of an earlier part of the
            run has it; found out if `None`. Of fixed steps alone, like `until`.
        until: when the run ends, if after `ts[-1]`: blow-ups are looked for up to then.
        stop: ends the flow early: `Steady()`, `BlowUp(bound)`, or a tuple of them.
        adjoint: how derivatives are taken; reverse mode with checkpoints if `None`.
        noise: `Isotropic(kappa)`; none if `None`. Tokens then take steps of `shark`,
            adaptive to 1e-3 unless told otherwise, onto frames and integer times.
        key: what the Brownian paths of tokens are drawn from: that of token `i` is a
            function of `key`, `i` and the time alone. Nothing else draws.
        progress: shows on the way how much is done: `diffrax.TextProgressMeter()`, or
            `diffrax.TqdmProgressMeter()` where tqdm is installed. It shows 100 % once
            the flow has ended, however early: the trajectory says how. Nothing is
            shown, and no program calls back to the host, if `None`.

    Raises:
        InvalidInputError: if times decrease or shapes do not fit; or noise lacks a key.
        UnsupportedError: if noise meets a plane grid in a box that shears.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.
        SimulationFailed: if a derivative is taken of a flow that failed; inside `jit` a
            `RuntimeError` of Equinox, which says the same.

    Examples:
        >>> from meanfield import Gaussian, attentions, flow
        >>> one = jnp.eye(1)
        >>> start = Gaussian.from_moments([0.0], [[2.0]])
        >>> run = flow(attentions["softmax"](-one, one, one), start, [0.0, 1.0])
        >>> print(run.status, run.final.covariance, 1 / (1 / 2 + 2))
        finished [[0.4]] 0.4
        >>> run = flow(attentions["softmax"](one, one, one), start, [0.0, 1.0])
        >>> print(run.status, f"{run.t_star:.6f}")  # at 1/(2Σ₀)
        blow-up 0.250000
    """
    check_adjoint(adjoint)
    check_progress(progress)
    problem, times = prepared(
        dynamics,
        mu0,
        ts,
        stepping=stepping,
        stop=stop,
        since=since,
        noise=present(noise),
        key=key,
    )
    return followed(
        problem, times, due=due, until=until, adjoint=adjoint, progress=progress
    )


def followed(
    problem: Problem,
    ts: Float[Array, " times"],
    *,
    due: BlowUpTime | None = None,
    until: float | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    progress: diffrax.AbstractProgressMeter | None = None,
) -> Trajectory:
    """The trajectory of a flow that is `prepared`; see `flow`.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.flows import followed, prepared
        >>> one = jnp.eye(1)
        >>> start = Gaussian.from_moments([0.0], [[2.0]])
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> problem, times = prepared(
        ...     softmax, start, [0.0, 1.0], stepping=None, stop=None, since=None
        ... )
        >>> print(followed(problem, times).final.covariance)
        [[0.4]]
    """
    due = _due(problem, ts, until) if due is None else due.or_never
    cast_all = lambda part: jnp.asarray(part, ts.dtype)
    problem = eqx.tree_at(lambda p: p.due, problem, jax.tree.map(cast_all, due))
    adjoint = adjoint or diffrax.RecursiveCheckpointAdjoint()
    meter = progress or diffrax.NoProgressMeter()
    trajectory = guarded(_moved(problem, ts, adjoint, meter))
    if is_concrete(trajectory.code) and trajectory.status.failed:
        last = trajectory.final
        motion_of(last).ask_again(problem.dynamics, last, trajectory.stop_time)
    return trajectory


def _due(
    problem: Problem, ts: Float[Array, " times"], until: float | None
) -> BlowUpTime:
    """When the exact flow blows up, as steps go before fixed ones to see."""
    if not foresees(problem.stepping, problem.mu0, problem.noise):
        return problem.due
    last = ts[-1] if until is None else jnp.asarray(until, ts.dtype)
    span = jnp.stack([ts[0], last])
    proven = is_bounded(problem.dynamics, problem.mu0, span)
    if is_concrete(proven) and bool(proven):
        return problem.due
    moved = problem.dynamics, problem.mu0
    ahead = replace(problem, stepping=forerunner(*moved), stops=())
    # No derivative is taken of what it says.
    end = _moved(frozen(ahead), span, diffrax.ForwardMode())
    return foretold(*moved, end.blow_up)


def _moved(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter = diffrax.NoProgressMeter(),
) -> Trajectory:
    """The trajectory with as many nodes as it takes."""
    trajectory = integrate(problem, ts, adjoint, meter)
    while (more := _with_room(problem, trajectory)) is not None:
        problem = more
        trajectory = integrate(problem, ts, adjoint, meter)
    return trajectory


def _with_room(problem: Problem, trajectory: Trajectory) -> Problem | None:
    """The problem with more nodes, if it was lost for want of them."""
    if not is_concrete(trajectory.code) or trajectory.status != Status.UNCONVERGED:
        return None
    motion, start = motion_of(problem.mu0), trajectory.ts[0]
    more = motion.roomier(problem.dynamics, problem.mu0, start)
    return None if more is None else eqx.tree_at(lambda p: p.mu0, problem, more)


def prepared(
    dynamics: AbstractDynamics,
    mu0: AbstractMeasure,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None,
    stop: Stop,
    since: float | None,
    noise: Noise = None,
    key: PRNGKey | None = None,
) -> tuple[Problem, Float[Array, " times"]]:
    """A flow ready to be integrated, and the times of its frames; see `flow`.

    Shapes, and pairs that do not work, are refused here and not inside the solver.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.flows import prepared
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> problem, times = prepared(
        ...     softmax, start, [0.0, 1.0], stepping=None, stop=None, since=None
        ... )
        >>> print(type(problem.stepping).__name__, times)
        Adaptive [0. 1.]
    """
    check_moved(dynamics, mu0)
    motion = motion_of(mu0)
    stops = stop if isinstance(stop, tuple) else (() if stop is None else (stop,))
    check_options(stepping, stops, since, key)
    dtype = jnp.result_type(*jax.tree.leaves(mu0.coordinates))
    with jax.ensure_compile_time_eval():  # numbers known now stay so inside a `jit`
        times, jumps = _increasing(ts).astype(dtype), dynamics.jumps
        mu0 = motion.ready(mu0, noise, times)
    start = jax.device_put(np.asarray(times)[0]) if is_concrete(times) else times[0]
    steps = stepping or motion.stepping(noise, dynamics, times)
    rests = any(stop.watches_speed for stop in stops)
    motion.check(mu0, steps, noise, dynamics=dynamics, key=key, rests=rests)
    mu0 = motion.planned(dynamics, mu0, start)
    *solved, rates = _errors(dynamics, mu0, start, noise)
    check_precision(mu0, rates)
    laid = motion.laid_out(steps, noise, times, jumps)
    begun = start if since is None else jnp.asarray(since, dtype)
    iterates = any(error is not None for error in solved)
    due = never(dtype)
    problem = Problem(dynamics, mu0, laid, stops, begun, due, noise, key, iterates)
    return problem, times


@outlined
def _errors(
    dynamics: AbstractDynamics, mu: AbstractMeasure, t: Time, noise: Noise
) -> tuple[Convergence | None, Convergence | None, PyTree]:
    """How well a field is solved for and interpolated, and how it moves the measure."""
    freeze = functools.partial(dynamics.field, t)
    field = freeze(mu)
    motion = motion_of(mu)
    rates = motion.drift(mu, field, noise)
    return field.convergence, motion.missed(freeze, mu, field), rates


def _increasing(ts: Numbers) -> Float[Array, " times"]:
    times = float_array("ts", ts)
    if times.ndim != 1 or times.shape[0] < 1:
        raise InvalidInputError(f"`ts` must be a vector of times; got {times.shape}.")
    if is_concrete(times):
        known = np.asarray(times)
        if np.any(known[1:] < known[:-1]):
            raise InvalidInputError("`ts` must not decrease: time runs forward.")
    return times
