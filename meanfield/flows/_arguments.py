"""Checks of the arguments of a flow: their kinds and their order."""

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

_ORDER = "In `flow(dynamics, mu0, ts)`"


def check_arguments(dynamics: object, mu0: AbstractMeasure) -> None:
    """Checks that `dynamics` is a dynamics, and `mu0` a single measure.

    Raises:
        InvalidInputError: if either is not, for example if the two are swapped.
    """
    require(f"{_ORDER}, `dynamics` must be a dynamics", dynamics, AbstractDynamics)
    requirement = f"{_ORDER}, `mu0` must be a measure, such as `Points.uniform(x)`"
    require(requirement, mu0, AbstractMeasure)
    motion_of(mu0).check_single(mu0)


def check_options(
    stepping: object, stops: tuple[object, ...], run_start: object, key: object
) -> None:
    """Checks the kinds of the options of `flow`.

    Raises:
        InvalidInputError: if an option is of the wrong kind.
    """
    if stepping is not None:
        requirement = "`stepping` must be `adaptive()`, `fixed(dt)` or `cfl()`"
        require(requirement, stepping, AbstractStepping)
    for stop in stops:
        requirement = "`stop` must be `Steady()`, `BlowUp(bound)`, or a tuple of stops"
        require(requirement, stop, AbstractStop)
    if run_start is not None:
        number("run_start", run_start)
    if key is not None:
        require("`key` must be a `jax.random.key(seed)`", key, jax.Array)


def check_adjoint(adjoint: object) -> None:
    """Checks that `adjoint` is an adjoint of diffrax, or `None`.

    Raises:
        InvalidInputError: if it is anything else.
    """
    if adjoint is not None:
        requirement = "`adjoint` must be an adjoint of diffrax"
        require(requirement, adjoint, diffrax.AbstractAdjoint)


def check_progress(progress: object) -> None:
    """Checks that `progress` is a progress meter of diffrax, or `None`.

    Raises:
        InvalidInputError: if it is anything else.
    """
    if progress is not None:
        requirement = "`progress` must be a meter, as `diffrax.TextProgressMeter()`"
        require(requirement, progress, diffrax.AbstractProgressMeter)


def check_precision(mu0: AbstractMeasure, rates: PyTree) -> None:
    """Checks that the state can hold its velocities without a loss of precision.

    Raises:
        InvalidInputError: if the dtype of the velocities is wider.
    """
    state = jnp.result_type(*jax.tree.leaves(mu0.coordinates))
    rate = jnp.result_type(*jax.tree.leaves(rates))
    if jnp.promote_types(state, rate) != state:
        raise InvalidInputError(
            f"The measure has dtype {state}, but its velocities have dtype "
            f"{rate}. Use one dtype for the measure and the parameters of its dynamics."
        )
