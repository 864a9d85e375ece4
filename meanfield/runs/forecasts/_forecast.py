"""Forecast of a run's memory, disk space and duration, based on a few tokens."""

import dataclasses
import functools
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.flows import interpolations
from meanfield.measures import AbstractPlannedReduction, Points, use_exact_sums
from meanfield.runs.representations import SKETCH_SIZE, Size, only_sorts, reduction_name
from meanfield.runs.setup._context import max_context_keys
from meanfield.runs.setup._observe import check_observable
from meanfield.runs.setup._resolve import check_draws, resolve
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import RunSpec

from ._duration import Duration, duration
from ._plan import Plan, plan

# Each matrix is in memory twice: in its head, and in the stack of all heads.
MATRIX_COPIES = 2


class Forecast(NamedTuple):
    """The memory, disk space and duration that a run will need.

    Attributes:
        plan: memory and disk space.
        duration: the estimated duration, with interpolated sums if they are possible.
        exact: the estimated duration if interpolation turns out not to be worthwhile;
            `None` if sums are exact anyway.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.forecast(spec.parse({"n": 1000, "A": -1.0, "frames": 11})).plan.frames
        11
    """

    plan: Plan
    duration: Duration
    exact: Duration | None


def forecast(spec: RunSpec) -> Forecast:
    """Forecasts a run of a spec, after all checks that the run itself would make.

    Nothing is computed with the full number of tokens. The forecast uses a few tokens
    of the same law, or the first tokens of a file.

    Raises:
        InvalidInputError: if keys contradict each other.
        InputFileError: if a file that the spec names cannot be read.
        NotClosedError: if the measure is a Gaussian and the attention does not keep it
            Gaussian.
        ResourceError: if the run does not fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> ahead = runs.forecast(spec.parse({"n": 100_000, "d": 2, "A": -1.0}))
        >>> ahead.plan.n, ahead.plan.memory < 2e9
        (100000, True)
    """
    setup = resolve(spec)
    member = _check_first_flow(setup)
    dynamics, representation, ts = member.dynamics, setup.representation, setup.ts
    size = representation.full_size(setup.start(), representation.size(member.measure))
    count = (spec.draws or 1) if spec.starts is None else len(setup.family)
    estimate_duration = functools.partial(
        duration, setup, dynamics=dynamics, members=count
    )
    make_plan = functools.partial(_plan, setup, count, dynamics)
    memory_plan, estimate = make_plan(size), estimate_duration(size)
    if only_sorts(dynamics):
        memory_plan = dataclasses.replace(memory_plan, reduction="none")
    if only_sorts(dynamics) or not isinstance(size.reduction, AbstractPlannedReduction):
        return Forecast(memory_plan, estimate, None)
    exact = size._replace(reduction=use_exact_sums(size.reduction))
    ways = _interpolations(member, size.n, size.reduction, ts[0])
    if not ways:
        return Forecast(make_plan(exact), estimate_duration(exact), None)
    first = size._replace(reduction=ways[0])
    names = ", ".join(type(how).__name__.lower() for how in ways)
    memory_plan = dataclasses.replace(
        make_plan(first), reduction=f"{names} or {reduction_name(exact.reduction)}"
    )
    return Forecast(memory_plan, estimate_duration(first), estimate_duration(exact))


def _check_first_flow(setup: Setup) -> Member:
    """Prepares the first flow with few tokens, after the same checks as in a run."""
    small = dataclasses.replace(setup, spec=_small(setup))
    draws = small.members()
    check_draws(setup, draws)
    first = draws[0]
    sketch = setup.representation.sketch(first.measure)
    trial = dataclasses.replace(first, measure=sketch)
    small.prepare(trial, small.segment(0), stepping=small.stepping(first.dynamics))
    check_observable(trial, small.energies(trial.measure.dimension))
    return first


def _plan(setup: Setup, count: int, dynamics: AbstractDynamics, size: Size) -> Plan:
    """The plan of a run, including the memory of its matrices."""
    keys = max_context_keys(setup.contexts)
    memory_plan = plan(setup.spec, size, len(setup.ts), count, keys=keys)
    arrays = [leaf.nbytes for leaf in jax.tree.leaves(dynamics) if eqx.is_array(leaf)]
    matrices = MATRIX_COPIES * sum(arrays) * setup.footprint.n_draws
    return dataclasses.replace(memory_plan, memory=memory_plan.memory + matrices)


def _interpolations(
    member: Member, n: int, reduction: AbstractPlannedReduction, t: Time
) -> tuple[AbstractPlannedReduction, ...]:
    """The interpolations that `n` tokens allow, judged from a few tokens."""
    mu = cast("Points", member.measure)  # only tokens have interpolated sums
    tokens, logs = mu.tokens, mu.log_weights
    blank = lambda leaf: jnp.zeros((n, *leaf.shape[1:]), leaf.dtype)
    whole = lambda: Points(*jax.tree.map(blank, (tokens, logs)), reduction=reduction)
    return interpolations(member.dynamics, eqx.filter_eval_shape(whole), t)


def _small(setup: Setup) -> RunSpec:
    """The spec with few tokens and members, but with all other shapes unchanged."""
    changes: dict[str, Any] = {}
    spec, d = setup.spec, setup.dimension
    if setup.start().counts_tokens:
        changes["n"] = min(spec.n, max(SKETCH_SIZE, d + 1))
    if spec.draws is not None:
        changes["draws"] = min(spec.draws, 2)
    if spec.starts is not None:
        changes |= {"starts": None, "d": d}
    return spec.model_copy(update=changes)
