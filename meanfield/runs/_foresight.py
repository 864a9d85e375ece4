"""What a run will take, without making it: its shapes are tried on a few tokens."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from meanfield.measures import (
    AbstractMeasure,
    Blocked,
    Chebyshev,
    EveryFace,
    Grid,
    Points,
)
from meanfield.measures.families import family
from meanfield.spec import RunSpec
from meanfield.tokens import Tokens

from ._build import Member, dimension, members, times
from ._duration import Duration, duration
from ._idle import refuse_equal_draws
from ._measures import reduction
from ._parameters import Draw
from ._plan import Plan, Size, plan, size_of
from ._run import admitted, rehearse

FEW = 64  # tokens that stand for all: enough for every shape to be tried


class Foresight(NamedTuple):
    """What a run will take: memory and disk, and an estimate of its time.

    Attributes:
        plan: memory and disk.
        duration: about how long it takes; with interpolated sums, where these may do.
        exact: about how long it takes where they do not; `None` if sums are exact.
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
    """
    spec = admitted(spec)
    small = _small(spec)
    found = members(small)
    refuse_equal_draws(spec, found)
    rehearse(small, [Member(m.dynamics, _sketched(m.measure)) for m in found[:1]])
    size, count = _size(spec, found[0].measure), _count(spec)
    ts = tuple(map(float, times(spec)))
    told, estimate = plan(spec, size, len(ts), count), duration(spec, size, ts, count)
    if not isinstance(size.how, Chebyshev):
        return Foresight(told, estimate, None)
    told = dataclasses.replace(told, reduction="chebyshev or blocked")
    exact = size._replace(how=size.how.otherwise)
    return Foresight(told, estimate, duration(spec, exact, ts, count))


def _small(spec: RunSpec) -> RunSpec:
    """The spec of a run of few tokens and members that has every key's shape."""
    changes: dict[str, Any] = {}
    if _draws_tokens(spec):
        changes["n"] = min(spec.n, max(FEW, dimension(spec) + 1))
    if spec.draws is not None:
        changes["draws"] = min(spec.draws, 2)
    if spec.starts is not None:
        changes |= {"starts": None, "d": dimension(spec)}
    return spec.model_copy(update=changes)


def _draws_tokens(spec: RunSpec) -> bool:
    """Whether its tokens are as many as it says, and nothing else counts them."""
    given = (spec.source, spec.model, spec.weights)
    return given == (None, None, None) and not spec.init.startswith("@")


def _sketched(measure: AbstractMeasure) -> AbstractMeasure:
    """A measure of the same shapes, with few tokens, that asks for no plan."""
    if isinstance(measure, Grid):
        return measure.asking(EveryFace())
    if not isinstance(measure, Points):
        return measure
    some = lambda leaf: leaf[:FEW]
    tokens: Tokens = jax.tree.map(some, measure.tokens)
    return Points(tokens, jnp.zeros(tokens.n, tokens.x.dtype), Blocked())


def _size(spec: RunSpec, measure: AbstractMeasure) -> Size:
    size = size_of(measure)
    if not isinstance(measure, Points):
        return size
    n = spec.n if _draws_tokens(spec) else size.n
    return size._replace(n=n, how=reduction(spec, n, size.d))


def _count(spec: RunSpec) -> int:
    """How many members there are."""
    if spec.starts is None:
        return spec.draws or 1
    key = Draw(spec.seed).key("starts")
    return len(family(spec.starts, dimension(spec), key=key))
