"""What a flow refuses: things in each other's place, and fields that cannot go on."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from meanfield._array import is_concrete, number, require
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, Gaussian, Points

from ._stepping import AbstractStepping
from ._stop import AbstractStop

_ORDER = "`flow(dynamics, mu0, ts)` moves"


def check_moved(dynamics: object, mu0: object) -> None:
    """Refuses a dynamics and a measure that are none, or in each other's place.

    Raises:
        InvalidInputError: saying what was given, and what belongs there.
    """
    require(f"{_ORDER} by a dynamics", dynamics, AbstractDynamics)
    require(f"{_ORDER} a measure, such as `Points.uniform(x)`", mu0, AbstractMeasure)
    parts = mu0.coordinates if isinstance(mu0, Points | Gaussian) else ()
    for part in jax.tree.leaves(parts)[-1:]:  # the states, or the factor
        shape = np.shape(part)
        if len(shape) != 2:
            raise InvalidInputError(
                f"The states of one measure are a matrix; got shape {shape} (an "
                "`ensemble` takes measures that are `stacked`)."
            )


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


def ask_again(dynamics: AbstractDynamics, mu: AbstractMeasure, t: Time) -> None:
    """Asks for the field where a Gaussian failed, and a step further, outside `jit`.

    There a closed form reads numbers, and refuses those that it does not hold for. Of
    a flow inside `grad` or `vmap` there are none to read.

    Raises:
        NotClosedError: as the closed form says it.
    """
    read = all(map(is_concrete, jax.tree.leaves((dynamics, mu, t))))
    if not (read and isinstance(mu, Gaussian)):
        return
    rates = mu.transport(dynamics.field(t, mu))
    step = jax.tree.map(lambda y, k: y + np.asarray(k), mu.coordinates, rates)
    dynamics.field(t, mu.at(step))
