"""What a run will take, without making it: its shapes are tried on a few tokens."""

import dataclasses
import functools
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.flows import interpolations
from meanfield.measures import AbstractPlanned, Points, exactly
from meanfield.runs.representations import FEW, Size, named, only_sorts
from meanfield.runs.setup._context import most_keys
from meanfield.runs.setup._observe import check_observable
from meanfield.runs.setup._resolve import check_draws, resolve
from meanfield.runs.setup._setup import Member, Setup
from meanfield.spec import RunSpec

from ._duration import Duration, duration
from ._plan import Plan, plan

STACKING = 2  # copies of matrices in memory: those of each head, and all in one


class Foresight(NamedTuple):
    """What a run will take: memory and disk, and an estimate of its time.

    Attributes:
        plan: memory and disk.
        duration: about how long it takes; with interpolated sums, where these may do.
        exact: about how long it takes where they do not; `None` if sums are exact.

    Examples:
        >>> from meanfield import runs, spec
        >>> runs.foreseen(spec.parse({"n": 1000, "A": -1.0, "frames": 11})).plan.frames
        11
    """

    plan: Plan
    duration: Duration
    exact: Duration | None


def foreseen(spec: RunSpec) -> Foresight:
    """What a run of a spec will take; all that can be refused is refused here.

    Nothing is summed over its tokens and nothing is compiled for them: a few tokens of
    the same law, or the first of those that are given, stand for all.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file that the spec names cannot be read.
        NotClosedError: if a Gaussian meets an attention that does not keep it one.
        ResourceError: if it cannot fit into memory.

    Examples:
        >>> from meanfield import runs, spec
        >>> ahead = runs.foreseen(spec.parse({"n": 100_000, "d": 2, "A": -1.0}))
        >>> ahead.plan.n, ahead.plan.memory < 2e9
        (100000, True)
    """
    setup = resolve(spec)
    member = _checked(setup)
    moves, home, ts = member.dynamics, setup.representation, setup.ts
    size = home.size_in_full(setup.start(), home.size(member.measure))
    count = (spec.draws or 1) if spec.starts is None else len(setup.family)
    lasting = functools.partial(duration, setup, dynamics=moves, members=count)
    planned = functools.partial(_plan, setup, count, moves)
    forecast, estimate = planned(size), lasting(size)
    if only_sorts(moves):
        forecast = dataclasses.replace(forecast, reduction="none")
    if only_sorts(moves) or not isinstance(size.how, AbstractPlanned):
        return Foresight(forecast, estimate, None)
    exact = size._replace(how=exactly(size.how))
    ways = _interpolations(member, size.n, size.how, ts[0])
    if not ways:
        return Foresight(planned(exact), lasting(exact), None)
    first = size._replace(how=ways[0])
    names = ", ".join(type(how).__name__.lower() for how in ways)
    forecast = dataclasses.replace(
        planned(first), reduction=f"{names} or {named(exact.how)}"
    )
    return Foresight(forecast, lasting(first), lasting(exact))


def _checked(setup: Setup) -> Member:
    """The first flow, with few tokens, after all is refused that a run would refuse."""
    small = dataclasses.replace(setup, spec=_small(setup))
    draws = small.members()
    check_draws(setup, draws)
    first = draws[0]
    few = setup.representation.sketch(first.measure)
    trial = dataclasses.replace(first, measure=few)
    small.prepare(trial, small.segment(0), stepping=small.stepping(first.dynamics))
    check_observable(trial, small.energies(trial.measure.dimension))
    return first


def _plan(setup: Setup, count: int, moves: AbstractDynamics, size: Size) -> Plan:
    """What a run will take, its matrices included: those of heads are stacked."""
    keys = most_keys(setup.contexts)
    forecast = plan(setup.spec, size, len(setup.ts), count, keys=keys)
    arrays = [leaf.nbytes for leaf in jax.tree.leaves(moves) if eqx.is_array(leaf)]
    matrices = STACKING * sum(arrays) * setup.footprint.draws
    return dataclasses.replace(forecast, memory=forecast.memory + matrices)


def _interpolations(
    member: Member, n: int, how: AbstractPlanned, t: Time
) -> tuple[AbstractPlanned, ...]:
    """How sums over `n` tokens may be interpolated, where few stand for them."""
    mu = cast("Points", member.measure)  # as nodes are of tokens alone
    tokens, logs = mu.tokens, mu.log_weights
    blank = lambda leaf: jnp.zeros((n, *leaf.shape[1:]), leaf.dtype)
    whole = lambda: Points(*jax.tree.map(blank, (tokens, logs)), reduction=how)
    return interpolations(member.dynamics, eqx.filter_eval_shape(whole), t)


def _small(setup: Setup) -> RunSpec:
    """The spec of a run of few tokens and members that has every key's shape."""
    changes: dict[str, Any] = {}
    spec, d = setup.spec, setup.dimension
    if setup.start().counts_tokens:
        changes["n"] = min(spec.n, max(FEW, d + 1))
    if spec.draws is not None:
        changes["draws"] = min(spec.draws, 2)
    if spec.starts is not None:
        changes |= {"starts": None, "d": d}
    return spec.model_copy(update=changes)
