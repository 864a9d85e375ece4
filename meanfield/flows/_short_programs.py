"""Integration of one prepared flow outside `jit`, by programs that compile fast."""

from dataclasses import replace

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from meanfield.dynamics import Projected
from meanfield.endings import Status

from ._compilation import compile_function, is_traced, optimisation_level
from ._integration import Problem, detector_of, integrate_in_jit, solve
from ._trajectory import Trajectory
from .watch import UNJUDGED, Growth, GrowthDetector, GrowthMonitor, where


def monitor_in_jit(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter,
) -> tuple[Trajectory, PyTree]:
    """The trajectory up to a possible blow-up, and the memory of the detector there.

    Without a possible blow-up the memory is zero: it would contain NaN of a flow at
    rest, at which `jax_debug_nans` stops.
    """
    detector = detector_of(problem, ts, GrowthMonitor)
    trajectory, growth = solve(problem, ts, adjoint, meter, detector)
    nothing = jax.tree.map(jnp.zeros_like, growth)
    return trajectory, where(trajectory.code == UNJUDGED, growth, nothing)


def _is_confirmed_in_jit(
    problem: Problem, y: PyTree[Array], t: Float[Array, ""], growth: Growth
) -> Bool[Array, ""]:
    """Whether the field confirms the blow-up that growth alone showed."""
    detector = GrowthDetector(problem.dynamics, problem.mu0, problem.run_start)
    return growth.is_near & detector.is_law_continued(growth, y, t, growth.is_near)


def level_of(problem: Problem, *args: object) -> int | None:
    """The optimisation level of a flow; see `optimisation_level`.

    Two kinds of flows work longer than their arguments suggest: iterations for
    potentials, and the quadratures of `Projected`.
    """
    parts = jax.tree.leaves(
        problem.dynamics, is_leaf=lambda part: isinstance(part, Projected)
    )
    if problem.is_iterative or any(isinstance(part, Projected) for part in parts):
        return None
    return optimisation_level(problem, *args)


integrate_fully = compile_function(integrate_in_jit, level_of)
monitor = compile_function(monitor_in_jit, level_of)
is_confirmed = compile_function(_is_confirmed_in_jit, level_of)


def integrate(
    problem: Problem,
    ts: Float[Array, " times"],
    adjoint: diffrax.AbstractAdjoint,
    meter: diffrax.AbstractProgressMeter = diffrax.NoProgressMeter(),
) -> Trajectory:
    """The trajectory of a prepared flow, by programs that compile fast.

    The first program detects a possible blow-up by growth alone. A short second program
    then evaluates the field at larger states. If they do not confirm the blow-up, a
    third program repeats the flow and evaluates such states after every step. The third
    program is used from the start for parameters that jump and for traced values.
    """
    arguments = problem, ts, adjoint, meter
    if problem.dynamics.jumps.shape[0] or is_traced(arguments):
        return integrate_fully(*arguments)
    trajectory, growth = monitor(*arguments)
    if int(trajectory.code) != UNJUDGED:
        return trajectory
    if not is_confirmed(problem, trajectory.last, trajectory.stop_time, growth):
        return integrate_fully(problem, ts, adjoint)  # progress was shown already
    return replace(trajectory, code=jnp.asarray(int(Status.BLOW_UP)))
