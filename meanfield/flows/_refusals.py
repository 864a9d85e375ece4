"""What a flow refuses: things in each other's place, and of another kind."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from meanfield._array import number, require
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure

from .motions import motion_of
from .stepping import AbstractStepping
from .watch import AbstractStop

_ORDER = "`flow(dynamics, mu0, ts)` moves"


def check_moved(dynamics: object, mu0: AbstractMeasure) -> None:
    """Refuses a dynamics and a measure that are none, or in each other's place.

    Raises:
        InvalidInputError: saying what was given, and what belongs there.
    """
    require(f"{_ORDER} by a dynamics", dynamics, AbstractDynamics)
    require(f"{_ORDER} a measure, such as `Points.uniform(x)`", mu0, AbstractMeasure)
    motion_of(mu0).check_single(mu0)


def check_options(
    stepping: object, stops: tuple[object, ...], since: object, key: object
) -> None:
    """Refuses options of another kind.

    Raises:
        InvalidInputError: saying what was given, and what belongs there.
    """
    if stepping is not None:
        how = "`stepping` is `adaptive()`, `fixed(dt)` or `cfl()`"
        require(how, stepping, AbstractStepping)
    for stop in stops:
        require("`stop` is `Steady()`, `BlowUp(bound)` or a tuple", stop, AbstractStop)
    if since is not None:
        number("since", since)
    if key is not None:
        require("`key` is a `jax.random.key(seed)`", key, jax.Array)


def check_adjoint(adjoint: object) -> None:
    """Refuses a way to take derivatives that is none.

    Raises:
        InvalidInputError: saying what was given, and what belongs there.
    """
    if adjoint is not None:
        require("`adjoint` is one of diffrax", adjoint, diffrax.AbstractAdjoint)


def check_progress(progress: object) -> None:
    """Refuses what shows no progress.

    Raises:
        InvalidInputError: saying what was given, and what belongs there.
    """
    if progress is not None:
        how = "`progress` is a meter such as `diffrax.TextProgressMeter()`"
        require(how, progress, diffrax.AbstractProgressMeter)


def check_precision(mu0: AbstractMeasure, rates: PyTree) -> None:
    """Refuses velocities that the states cannot be moved by without rounding.

    Raises:
        InvalidInputError: naming both types.
    """
    state = jnp.result_type(*jax.tree.leaves(mu0.coordinates))
    rate = jnp.result_type(*jax.tree.leaves(rates))
    if jnp.promote_types(state, rate) != state:
        raise InvalidInputError(
            f"The measure is {state} and its velocities are {rate}: give the measure "
            "and the parameters of its dynamics one dtype."
        )
