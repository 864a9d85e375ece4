"""Energies along a run: their values and rates of change at each frame."""

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from meanfield.dynamics import AbstractDynamics
from meanfield.energies import AbstractEnergy, dissipation, steepest_rate
from meanfield.errors import UnsupportedError
from meanfield.flows.motions import motion_of
from meanfield.measures import AbstractMeasure, use_fallback
from meanfield.runs.representations import Arrays, representation_of

from ._energies import Energies, suffix
from ._setup import Member

_QUANTITIES = ("energy", "dissipation", "steepest")


def variables(names: Iterable[str]) -> list[str]:
    """The names of the variables that a run adds when it observes these energies."""
    return _names(map(suffix, names))


def check_observable(member: Member, parts: Energies) -> None:
    """Checks that all energies are defined for a member, by tracing them.

    Raises:
        UnsupportedError: if an energy is not defined for its measure.
    """
    t = jnp.zeros(())
    eqx.filter_eval_shape(lambda: _evaluate(parts, member.dynamics, member.measure, t))


def observables(
    member: Member, parts: Energies, frames: Mapping[str, np.ndarray], length: int
) -> Arrays:
    """The energies of one member and their rates, at each of its frames.

    Frames are padded to `length`, the same for all segments. All segments then share
    one compilation, and a resumed run agrees bit for bit.
    """
    count = len(frames["time"])
    pick = np.minimum(np.arange(length), count - 1)
    arrays = {name: array[pick] for name, array in frames.items()}
    coordinates = representation_of(member.measure).coordinates(member.measure, arrays)
    ts = jnp.asarray(arrays["time"])
    measure = plan_cell_sums(member, jax.tree.map(lambda x: x[0], coordinates), ts[0])
    series = _evaluate_frames(parts, member.dynamics, measure, ts, coordinates)
    return {name: np.asarray(series[name])[:count] for name in _names(parts)}


def plan_cell_sums(
    member: Member, coordinates: PyTree[Array], t: Float[Array, ""]
) -> AbstractMeasure:
    """The measure of a member, with sums interpolated in cells if its flow uses cells.

    Frames outside the cells use exact sums.
    """
    motion = motion_of(member.measure)
    first = member.measure.replace_coordinates(coordinates)
    ready = motion.plan(member.dynamics, first, t)
    return use_fallback(ready) if motion.is_checked(ready) else member.measure


@eqx.filter_jit
def _evaluate_frames(
    parts: Energies,
    dynamics: AbstractDynamics,
    mu: AbstractMeasure,
    ts: Float[Array, " times"],
    coordinates: PyTree[Array],
) -> dict[str, Float[Array, " times"]]:
    """The energies at all frames, computed one by one to save memory."""
    evaluate = lambda frame: _evaluate(
        parts, dynamics, mu.replace_coordinates(frame[1]), frame[0]
    )
    return jax.lax.map(evaluate, (ts, coordinates))


def _evaluate(
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
    """The rate of change along the gradient flow of an energy; NaN if undefined."""
    try:
        return steepest_rate(energy, mu)
    except UnsupportedError:
        return jnp.full((), jnp.nan)


def _names(suffixes: Iterable[str]) -> list[str]:
    return [f"{quantity}{s}" for s in suffixes for quantity in _QUANTITIES]
