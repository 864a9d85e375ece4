"""Energies along a run: at each frame their values, and the rates they change at."""

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield.dynamics import AbstractDynamics
from meanfield.energies import AbstractEnergy, dissipation, steepest
from meanfield.errors import UnsupportedError
from meanfield.flows.motions import motion_of
from meanfield.measures import AbstractMeasure, unfenced
from meanfield.runs.representations import Arrays, representation_of

from ._energies import Energies, suffix
from ._setup import Member

_QUANTITIES = ("energy", "dissipation", "steepest")


def variables(names: Iterable[str]) -> list[str]:
    """The names of the variables that observing these energies adds."""
    return _names(map(suffix, names))


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


def _names(suffixes: Iterable[str]) -> list[str]:
    return [f"{quantity}{s}" for s in suffixes for quantity in _QUANTITIES]
