"""Energies along a run: at each frame their values, and the rates they change at."""

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield.dynamics import AbstractDynamics
from meanfield.energies import (
    AbstractEnergy,
    dissipation,
    energies,
    free,
    natural,
    steepest,
)
from meanfield.errors import InvalidInputError, UnsupportedError
from meanfield.flows.motions import motion_of
from meanfield.measures import AbstractMeasure, unfenced
from meanfield.runs.building._build import Member
from meanfield.runs.building._energies import check_known, descended, energy_named
from meanfield.runs.building._parameters import Draw
from meanfield.runs.representations import Arrays, representation_of
from meanfield.spec import RunSpec

_QUANTITIES = ("energy", "dissipation", "steepest")

Energies = dict[str, AbstractEnergy]  # by the suffix of their variables


def observed(spec: RunSpec, d: int, draw: Draw) -> Energies:
    """The energies that a spec asks to observe.

    Raises:
        InvalidInputError: if one depends on parameters that the run has not one of, or
            the run has noise, whose share of `dE/dt` is not known here.
        UnknownNameError: if a name is not registered.
    """
    parts: Energies = {}
    if spec.watched and spec.noise:
        raise InvalidInputError(
            "`observe` records an energy and its rate under the velocities alone, to "
            "which `noise` adds: leave out one of them."
        )
    for name in spec.watched:
        parts[_suffix(name)] = _energy(spec, name, d, draw)
    return parts


def _energy(spec: RunSpec, name: str, d: int, draw: Draw) -> AbstractEnergy:
    if name == "energy" and spec.flow_of is not None:
        return descended(spec, d, draw)
    key = _natural(spec) if name == "energy" else name
    check_known(key, "energy")
    if key not in free:
        _check_single(spec, name)
    return energy_named(spec, key, d, draw)


def variables(spec: RunSpec) -> list[str]:
    """The names of the variables that observing adds."""
    return _names(map(_suffix, spec.watched))


def check_observable(member: Member, parts: Energies) -> None:
    """Lets an energy that has no meaning here fail before anything is written.

    Raises:
        UnsupportedError: if a measure has no such energy.
    """
    t = jnp.zeros(())
    eqx.filter_eval_shape(lambda: _at(parts, member.dynamics, member.measure, t))


def observables(
    member: Member,
    parts: Energies,
    frames: Mapping[str, np.ndarray],
    length: int,
) -> Arrays:
    """What is observed of one member at its frames.

    Frames are filled up to `length`, the same for every segment: all then share one
    compilation, and a resumed run has the same bits.
    """
    count = len(frames["time"])
    pick = np.minimum(np.arange(length), count - 1)
    arrays = {name: array[pick] for name, array in frames.items()}
    coordinates = representation_of(member.measure).coordinates(member.measure, arrays)
    ts = jnp.asarray(arrays["time"])
    measure = in_cells(member, jax.tree.map(lambda x: x[0], coordinates), ts[0])
    along = _along(parts, member.dynamics, measure, ts, coordinates)
    return {name: np.asarray(along[name])[:count] for name in _names(parts)}


def in_cells(
    member: Member, coordinates: PyTree[Array], t: Float[Array, ""]
) -> AbstractMeasure:
    """With sums in cells, where a flow has them; exact where these do not hold them."""
    motion = motion_of(member.measure)
    first = member.measure.at(coordinates)
    ready = motion.planned(member.dynamics, first, t)
    return unfenced(ready) if motion.is_fenced(ready) else member.measure


@eqx.filter_jit
def _along(
    parts: Energies,
    dynamics: AbstractDynamics,
    mu: AbstractMeasure,
    ts: Float[Array, " times"],
    coordinates: PyTree[Array],
) -> dict[str, Float[Array, " times"]]:
    """One frame after the other, to hold the memory of one."""
    at = lambda frame: _at(parts, dynamics, mu.at(frame[1]), frame[0])
    return jax.lax.map(at, (ts, coordinates))


def _at(
    parts: Energies,
    dynamics: AbstractDynamics,
    mu: AbstractMeasure,
    t: Float[Array, ""],
) -> dict[str, Float[Array, ""]]:
    field = dynamics.field(t, mu)
    values = {f"energy{suffix}": energy(mu) for suffix, energy in parts.items()}
    rates = {f"dissipation{s}": dissipation(e, mu, field) for s, e in parts.items()}
    least = {f"steepest{s}": _steepest(e, mu) for s, e in parts.items()}
    return values | rates | least


def _steepest(energy: AbstractEnergy, mu: AbstractMeasure) -> Float[Array, ""]:
    """The rate along the gradient flow; NaN where no velocity is that flow."""
    try:
        return steepest(energy, mu)
    except UnsupportedError:
        return jnp.full((), jnp.nan)


def _suffix(name: str) -> str:
    """Of the variables of an energy: none for the one that belongs to the run."""
    return "" if name == "energy" else f"_{name.replace('-', '_')}"


def _names(suffixes: Iterable[str]) -> list[str]:
    return [f"{quantity}{s}" for s in suffixes for quantity in _QUANTITIES]


def _natural(spec: RunSpec) -> str:
    if (spec.iterations, spec.drift) == (None, None) and spec.attention in natural:
        return natural[spec.attention]
    after_steps = "" if spec.iterations is None else " after finitely many iterations"
    with_drift = "" if spec.drift is None else " beside a `drift`"
    raise InvalidInputError(
        f"`{spec.attention}` attention{after_steps}{with_drift} follows no energy that "
        f"is known; observe one of {', '.join(energies)}."
    )


def _check_single(spec: RunSpec, name: str) -> None:
    """An energy of scores is one of a single attention, the same at all times."""
    several = {
        "heads": spec.heads > 1,
        "layers": bool(spec.layers),
        "terms": bool(spec.terms),
        "mask": spec.mask is not None,
        "context": spec.context is not None,
        "model": spec.model is not None,
    }
    key = next((key for key, is_there in several.items() if is_there), None)
    if key is not None:
        raise InvalidInputError(
            f"`observe = {name}` needs one unmasked attention that does not change in "
            f"time, and this run has `{key}`; these need none: {', '.join(free)}."
        )
