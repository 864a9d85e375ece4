"""The flow of a measure under a dynamics, for any representation."""

import functools
from dataclasses import replace

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield._array import float_array, is_concrete, stop_gradient
from meanfield._typing import Numbers, PRNGKey, Time
from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.errors import InvalidInputError
from meanfield.fields import Convergence
from meanfield.measures import AbstractMeasure

from ._arguments import (
    check_adjoint,
    check_arguments,
    check_options,
    check_precision,
    check_progress,
)
from ._compilation import eval_shapes, field_at, full_precision
from ._guard import guard_derivatives
from ._integration import Problem, evaluate_field
from ._short_programs import integrate
from ._trajectory import M, Trajectory
from .motions import Noise, active_noise, motion_of
from .stepping import AbstractStepping, Arclength, Events
from .watch import (
    AbstractStop,
    BlowUpTime,
    is_bounded,
    needs_pilot,
    no_blow_up,
    pilot_blow_up,
    pilot_span,
    pilot_stepping,
)

Stop = AbstractStop | tuple[AbstractStop, ...] | None


def flow(  # noqa: PLR0913 (all that defines a flow, and no more)
    dynamics: AbstractDynamics,
    mu0: M,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None = None,
    stop: Stop = None,
    run_start: float | None = None,
    predicted_blow_up: BlowUpTime | None = None,
    run_end: float | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    noise: Noise = None,
    key: PRNGKey | None = None,
    progress: diffrax.AbstractProgressMeter | None = None,
) -> Trajectory[M]:
    r"""Integrates $\partial_t\mu + \nabla\cdot(\mu\, v[\mu]) = \kappa\Delta\mu$.

    The flow starts at `mu0`; $\kappa = 0$ without noise.

    The function is pure: `vmap` it over initial measures, or differentiate it, in
    reverse mode (forward mode with `adjoint=diffrax.ForwardMode()`). A finite-time
    blow-up always ends the flow; this is a result, not an error, and its time is
    `t_star`. A failed integration raises no error either, except if it is
    differentiated. See `Trajectory.raise_for_status`.

    Args:
        dynamics: the dynamics, which gives the velocity field of a measure.
        mu0: the measure at `ts[0]`.
        ts: non-decreasing times of the frames; the first is the start.
        stepping: `adaptive()`, `fixed(dt)` or, for a `Grid`, `cfl()`. `None` stands for
            `adaptive()`, or `cfl()` for a `Grid`, or 128 steps of equal length for
            tokens whose velocities jump, as under `esp`.
        run_start: start of the run, if this flow continues one; `ts[0]` if `None`.
            Growth counts as a blow-up if the time left until the blow-up is short
            compared with the time since `run_start`.
        predicted_blow_up: blow-up time of the exact flow, taken from
            `Trajectory.predicted_blow_up` of an earlier part of the run; with `None`, a
            pilot integration finds it. Only fixed steps use it.
        run_end: end of the run, if it is later than `ts[-1]`: the pilot integration
            looks for blow-ups up to then. Only fixed steps use it.
        stop: criterion that ends the flow early: `Steady()`, `BlowUp(bound)`, or a
            tuple of them.
        adjoint: how derivatives are taken; reverse mode with checkpoints if `None`.
            Second derivatives need `DirectAdjoint()`, or forward mode twice.
        noise: `Isotropic(kappa)`; `None` for no noise. Tokens under noise take steps of
            `shark` by default, adaptive with a relative error of 1e-3. Under noise,
            steps of tokens land on frames and on integer times.
        key: PRNG key of the tokens' Brownian paths: the path of token `i` depends on
            `key`, `i` and the time only. No other measure draws random numbers.
        progress: progress meter: `diffrax.TextProgressMeter()`, or
            `diffrax.TqdmProgressMeter()` if tqdm is installed. It shows 100 % when the
            flow has ended, even if it ended early. With `None` nothing is shown, and
            the compiled program does not call back to the host.

    Raises:
        InvalidInputError: if times decrease, shapes do not fit, or noise on tokens
            lacks a key.
        UnsupportedError: if noise is added to a plane grid in a box that shears.
        NotClosedError: if the attention does not map Gaussians to Gaussians, and `mu0`
            is a Gaussian.
        SimulationError: if a flow that failed is differentiated; inside `jit` it is a
            `RuntimeError` of Equinox with a similar message.

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
    options = {"stepping": stepping, "stop": stop, "run_start": run_start, "key": key}
    noise = active_noise(noise)
    problem, times = prepare_problem(dynamics, mu0, ts, noise=noise, **options)
    return flow_problem(
        problem,
        times,
        predicted_blow_up=predicted_blow_up,
        run_end=run_end,
        adjoint=adjoint,
        progress=progress,
    )


def flow_problem(
    problem: Problem,
    ts: Float[Array, " times"],
    *,
    predicted_blow_up: BlowUpTime | None = None,
    run_end: float | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    progress: diffrax.AbstractProgressMeter | None = None,
) -> Trajectory:
    """Integrates a problem from `prepare_problem`, as the second half of `flow`.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.flows import flow_problem, prepare_problem
        >>> one = jnp.eye(1)
        >>> start = Gaussian.from_moments([0.0], [[2.0]])
        >>> softmax = attentions["softmax"](-one, one, one)
        >>> problem, times = prepare_problem(
        ...     softmax, start, [0.0, 1.0], stepping=None, stop=None, run_start=None
        ... )
        >>> print(flow_problem(problem, times).final.covariance)
        [[0.4]]
    """
    if isinstance(problem.stepping, Arclength):
        from .on_host._arclength import integrate_by_arclength

        return integrate_by_arclength(problem, ts)
    if isinstance(problem.stepping, Events):
        from .on_host._events import integrate_by_events

        return integrate_by_events(problem, ts)
    predicted_blow_up = (
        _predict_blow_up(problem, ts, run_end)
        if predicted_blow_up is None
        else predicted_blow_up.inf_form
    )
    cast_all = lambda part: jnp.asarray(part, ts.dtype)
    prediction = jax.tree.map(cast_all, predicted_blow_up)
    problem = eqx.tree_at(lambda p: p.predicted_blow_up, problem, prediction)
    adjoint = adjoint or diffrax.RecursiveCheckpointAdjoint()
    meter = progress or diffrax.NoProgressMeter()
    trajectory = guard_derivatives(_integrate_with_retries(problem, ts, adjoint, meter))
    if is_concrete(trajectory.code) and trajectory.status.is_failure:
        last = trajectory.final
        motion_of(last).diagnose_failure(problem.dynamics, last, trajectory.stop_time)
    return trajectory


def _predict_blow_up(
    problem: Problem, ts: Float[Array, " times"], run_end: float | None
) -> BlowUpTime:
    """Blow-up time of the exact flow, from a pilot integration if steps are fixed."""
    if not needs_pilot(problem.stepping, problem.mu0, problem.noise):
        return problem.predicted_blow_up
    span = pilot_span(ts, run_end)
    is_proven = is_bounded(problem.dynamics, problem.mu0, span)
    if is_concrete(is_proven) and bool(is_proven):
        return problem.predicted_blow_up
    pair = problem.dynamics, problem.mu0
    pilot = replace(problem, stepping=pilot_stepping(*pair), stops=())
    # Derivatives do not pass through the prediction of the blow-up time.
    end = _integrate_with_retries(stop_gradient(pilot), span, diffrax.ForwardMode())
    return pilot_blow_up(*pair, end.blow_up)


def _integrate_with_retries(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter = diffrax.NoProgressMeter(),
) -> Trajectory:
    """Integrates a problem, and repeats with larger plans while sums are inaccurate."""
    trajectory = integrate(problem, ts, adjoint, meter)
    while (larger_problem := _enlarge_problem(problem, trajectory)) is not None:
        problem = larger_problem
        trajectory = integrate(problem, ts, adjoint, meter)
    return trajectory


def _enlarge_problem(problem: Problem, trajectory: Trajectory) -> Problem | None:
    """The problem with a larger plan for its sums; `None` if no plan can help."""
    if not is_concrete(trajectory.code) or trajectory.status != Status.UNCONVERGED:
        return None
    motion, start = motion_of(problem.mu0), trajectory.ts[0]
    larger_mu0 = motion.enlarge_plan(problem.dynamics, problem.mu0, start)
    return (
        None
        if larger_mu0 is None
        else eqx.tree_at(lambda p: p.mu0, problem, larger_mu0)
    )


def prepare_problem(
    dynamics: AbstractDynamics,
    mu0: AbstractMeasure,
    ts: Numbers,
    *,
    stepping: AbstractStepping | None,
    stop: Stop,
    run_start: float | None,
    noise: Noise = None,
    key: PRNGKey | None = None,
) -> tuple[Problem, Float[Array, " times"]]:
    """Checks the arguments of `flow`; returns the problem and the frame times.

    Wrong shapes and incompatible options raise here rather than in the solver.

    Examples:
        >>> from meanfield import Gaussian, attentions
        >>> from meanfield.flows import prepare_problem
        >>> one = jnp.eye(1)
        >>> softmax, start = (
        ...     attentions["softmax"](-one, one, one),
        ...     Gaussian(jnp.zeros(1), one),
        ... )
        >>> problem, times = prepare_problem(
        ...     softmax, start, [0.0, 1.0], stepping=None, stop=None, run_start=None
        ... )
        >>> print(type(problem.stepping).__name__, times)
        Adaptive [0. 1.]
    """
    check_arguments(dynamics, mu0)
    motion = motion_of(mu0)
    stops = stop if isinstance(stop, tuple) else (() if stop is None else (stop,))
    check_options(stepping, stops, run_start, key)
    dtype = jnp.result_type(*jax.tree.leaves(mu0.coordinates))
    with jax.ensure_compile_time_eval():  # known numbers stay concrete inside `jit`
        times, jumps = _check_times(ts).astype(dtype), dynamics.jumps
        mu0 = motion.prepare(mu0, noise, times)
    start = jax.device_put(np.asarray(times)[0]) if is_concrete(times) else times[0]
    steps = stepping or motion.stepping(noise, dynamics, times)
    needs_rest = any(stop.needs_speed for stop in stops)
    motion.check(mu0, steps, noise, dynamics=dynamics, key=key, needs_rest=needs_rest)
    mu0 = motion.plan(dynamics, mu0, start)
    *errors, rates = _errors(dynamics, mu0, start, noise)
    check_precision(mu0, rates)
    schedule = motion.schedule_steps(steps, noise, times, jumps)
    origin = start if run_start is None else jnp.asarray(run_start, dtype)
    parts = dynamics, mu0, schedule, stops, origin, no_blow_up(dtype), noise, key
    return Problem(*parts, is_iterative=any(e is not None for e in errors)), times


@eval_shapes
def _errors(
    dynamics: AbstractDynamics, mu: AbstractMeasure, t: Time, noise: Noise
) -> tuple[Convergence | None, Convergence | None, PyTree]:
    """Shapes of the field's residual, of the error in its sums, and of the drift."""
    with full_precision():  # as in the program of the flow, which reuses this trace
        rates, convergence = evaluate_field(dynamics, mu, t, noise)
    freeze = functools.partial(field_at, dynamics, t)
    return convergence, motion_of(mu).sum_convergence(freeze, mu, freeze(mu)), rates


def _check_times(ts: Numbers) -> Float[Array, " times"]:
    times = float_array("ts", ts)
    if times.ndim != 1 or times.shape[0] < 1:
        raise InvalidInputError(
            f"`ts` must be a vector of one or more times; got shape {times.shape}."
        )
    if is_concrete(times):
        host_times = np.asarray(times)
        if np.any(host_times[1:] < host_times[:-1]):
            raise InvalidInputError("The times `ts` of a flow must not decrease.")
    return times
