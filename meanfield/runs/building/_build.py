"""From a spec to a dynamics, an initial measure and times."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from meanfield import models
from meanfield.dynamics import AbstractDynamics, Projected
from meanfield.errors import InvalidInputError
from meanfield.flows import (
    AbstractStepping,
    AbstractStop,
    BlowUp,
    Isotropic,
    Steady,
    signature,
)
from meanfield.flows import stops as ways_to_stop
from meanfield.linalg import psd_sqrt
from meanfield.measures import AbstractMeasure, Gaussian, clouds_abreast
from meanfield.measures.families import family
from meanfield.runs.records._vocabulary import text_of
from meanfield.runs.representations import representations
from meanfield.spec import KEYS, OF_HEADS, RunSpec, heads_of

from ._attention import dynamics, model_coupling
from ._context import Contexts, context_dimension, contexts
from ._drift import acting_on
from ._energies import descent
from ._parameters import Draw, columns, entries
from ._precision import dtype_of, typed
from ._source import source_dimension, source_measure, stored_measure
from ._tokens import states_in, tokens_of, tokens_of_file


@dataclass(frozen=True)
class Member:
    """One flow: what moves, and by what.

    Examples:
        >>> from meanfield import runs, spec
        >>> type(runs.member(spec.parse({"n": 5, "d": 2})).measure).__name__
        'Points'
    """

    dynamics: AbstractDynamics
    measure: AbstractMeasure


def dimension(spec: RunSpec) -> int:
    """The dimension that the keys fix; a number alone is a 1 × 1 matrix.

    A grid of starts lies in the plane.

    Raises:
        InvalidInputError: if two keys disagree.
        InputFileError: if a file cannot be read.
    """
    sizes = {} if spec.d is None else {"d": spec.d}
    matrices = [name for name, row in KEYS.items() if row.holds == "matrix"]
    for name in matrices:
        size = _columns(spec, name)
        if size is not None:
            is_vector = name.endswith("mean")
            sizes[name if is_vector else f"columns of {name}"] = size
    sizes |= acting_on(spec) | _in_model(spec)
    if spec.init.startswith("@"):
        sizes["init"] = states_in(spec.init[1:]).shape[1]
    if spec.source is not None:
        sizes["the run to start from"] = source_dimension(spec.source)
    for context in contexts(spec):
        size = None if context is None else context_dimension(context)
        if size is not None:
            sizes[f"the context {context}"] = size
    if len(set(sizes.values())) > 1:
        text = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InvalidInputError(
            f"The keys disagree on the dimension ({text}); make them agree, or leave "
            "one out."
        )
    plane = spec.starts is not None and spec.starts.startswith("grid")
    return next(iter(sizes.values()), 2 if plane else 1)


def _in_model(spec: RunSpec) -> dict[str, int]:
    """The dimension that a model has, if there is one."""
    if spec.model is None:
        return {}
    network = models.read(models.load(spec.model))
    return {f"the model {spec.model}": network.sizes.dimension}


def _columns(spec: RunSpec, name: str) -> int | None:
    """The dimension that a matrix fixes, or the first of a list that does."""
    value = getattr(spec, name)
    if name.endswith("mean"):
        return entries(value)
    parts = heads_of(value) if name in OF_HEADS else None
    sizes = [columns(part) for part in ([value] if parts is None else parts)]
    return next((size for size in sizes if size is not None), None)


def member(spec: RunSpec, index: int = 0, looked_at: Contexts | None = None) -> Member:
    """The flow of draw `index` of a spec; draws share what is `looked_at`.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.

    Examples:
        >>> from meanfield import runs, spec
        >>> member = runs.member(spec.parse({"n": 5, "d": 2, "attention": "l2"}))
        >>> member.measure.tokens.x.shape, type(member.dynamics).__name__
        ((5, 2), 'Attention')
    """
    draw = Draw(spec.seed, index)
    begins_there = spec.source is not None or spec.text is not None
    d = 0 if spec.model is not None and begins_there else dimension(spec)
    if spec.source is not None:
        measure = source_measure(spec)
    elif spec.text is not None:
        measure = _words(spec)
    else:
        measure = _start(spec, d, draw)
    return Member(moved_by(spec, d, draw, looked_at), typed(spec, measure))


def members(spec: RunSpec) -> list[Member]:
    """All flows of a spec: one, or one for each draw or start.

    Raises:
        InvalidInputError: if keys do not fit together.
        InputFileError: if a file it names cannot be read.
    """
    if spec.starts is None:
        looked_at = Contexts(spec)
        return [member(spec, i, looked_at) for i in range(spec.draws or 1)]
    draw, d = Draw(spec.seed), dimension(spec)
    moves = moved_by(spec, d, draw)
    covariances = family(spec.starts, d, key=draw.key("starts"))
    factors, zero = jax.vmap(psd_sqrt)(covariances), jnp.zeros(d)
    return [Member(moves, typed(spec, Gaussian(zero, Y))) for Y in factors]


def moved_by(
    spec: RunSpec, d: int, draw: Draw, looked_at: Contexts | None = None
) -> AbstractDynamics:
    """The dynamics of a spec in dimension `d`, in its floating-point format.

    Args:
        spec: the spec.
        d: the dimension.
        draw: for matrices that are drawn.
        looked_at: the contexts of the spec, if other draws share them.

    Raises:
        InvalidInputError: if keys do not fit together.
    """
    moves = _attends(spec, d, draw, looked_at or Contexts(spec))
    return Projected(moves) if spec.projected else moves


def _attends(
    spec: RunSpec, d: int, draw: Draw, looked_at: Contexts
) -> AbstractDynamics:
    if spec.flow_of is not None:
        return descent(spec, d, draw)
    if spec.model is None:
        return typed(spec, dynamics(spec, d, draw, looked_at))
    return models.layers(
        models.load(spec.model),
        layers=spec.model_layers,
        heads=spec.model_heads,
        coupling=model_coupling(spec),
        dtype=dtype_of(spec),
    )


def stepping(
    spec: RunSpec, ts: Float[np.ndarray, " times"], dynamics: AbstractDynamics
) -> AbstractStepping:
    """The stepping of a spec, whose flow is moved by a dynamics.

    Raises:
        InvalidInputError: if a fixed step needs more steps than are allowed.
        UnknownNameError: if there is no such solver.
    """
    return representations[spec.measure].stepping(spec, ts, dynamics)


def noise(spec: RunSpec) -> Isotropic | None:
    """The noise of a spec; none if it is zero."""
    return Isotropic(spec.noise) if spec.noise else None


def stops(spec: RunSpec) -> tuple[AbstractStop, ...]:
    """When a spec lets its flow end early.

    Raises:
        InvalidInputError: if the number of a stop does not work.
        UnknownNameError: if there is no such stop.
    """
    steady = () if spec.steady is None else (Steady(spec.steady),)
    bound = () if spec.bound is None else (BlowUp(spec.bound),)
    return (*steady, *bound, *map(_stop, spec.stop or ()))


def _stop(text: str) -> AbstractStop:
    name, _, number = text.rpartition(":")
    return ways_to_stop[name](float(number))


def in_full(spec: RunSpec) -> RunSpec:
    """A spec with what its measure has by default, for all that goes on from it."""
    start = tokens_of_file if spec.source is None else stored_measure
    return representations[spec.measure].in_full(spec, functools.partial(start, spec))


def _start(spec: RunSpec, d: int, draw: Draw) -> AbstractMeasure:
    home, tokens = representations[spec.measure], tokens_of_file(spec)
    if tokens is None:
        return home.of_law(spec, d, draw)
    return home.of_tokens(spec, tokens)


def _words(spec: RunSpec) -> AbstractMeasure:
    checkpoint = models.load(str(spec.model))
    x = models.embed(checkpoint, text_of(spec), dtype=dtype_of(spec)).tokens.x
    return representations[spec.measure].of_tokens(spec, tokens_of(spec, x))


def side_by_side(spec: RunSpec, members: Sequence[Member]) -> bool:
    """Whether members move together: starts, and draws of small clouds of one kind."""
    if spec.starts is not None:
        return True
    are_small = clouds_abreast(members[0].measure) > 1 and len(members) > 1
    return are_small and len({signature((m.dynamics, m.measure)) for m in members}) == 1


def refuse_equal_draws(spec: RunSpec, draws: Sequence[Member]) -> None:
    """Refuses draws of a density of which nothing is drawn.

    Raises:
        InvalidInputError: if the first two are the same.
    """
    if len(draws) < 2 or representations[spec.measure].is_drawn(spec):
        return
    first, second = ((m.dynamics, m.measure) for m in draws[:2])
    if eqx.tree_equal(first, second):
        raise InvalidInputError(
            f"All {spec.draws} `draws` are the same density under the same attention: "
            "leave `draws` out, or draw something (`--A normal`, `--init mixture`)."
        )
