"""A guard that makes derivatives of failed flows raise."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from meanfield._array import is_concrete
from meanfield._derivatives import custom_derivative
from meanfield.endings import Status

from ._trajectory import Trajectory

_MESSAGE = (
    "A derivative was taken of a flow that failed, with status `max-steps`, "
    "`not-finite` or `unconverged`. Run the flow without the derivative, and read "
    "`raise_for_status()`."
)


def guard_derivatives(trajectory: Trajectory) -> Trajectory:
    """The trajectory, with derivatives that raise if the flow failed.

    A failed flow ends before the requested time or at a state whose velocity is
    inaccurate, so its derivatives are not the requested ones. The error names the
    ending if it is known. Inside `jit`, only a program that computes derivatives calls
    back to the host.

    Raises:
        SimulationError: if the flow failed and is being differentiated now.
    """
    states = trajectory.coordinates, trajectory.last
    if not is_concrete(trajectory.code):
        guard = lambda leaf: _guard_leaf(leaf, trajectory.code)
        coordinates, last = jax.tree.map(guard, states)
        return replace(trajectory, coordinates=coordinates, last=last)
    if not all(map(is_concrete, jax.tree.leaves(states))):
        trajectory.raise_for_status()
    return trajectory


def _guard_leaf(leaf: Array, code: Int[Array, "..."]) -> PyTree[Array]:
    def rule(_: Array, args: tuple, tangents: tuple) -> Array:
        failures = [int(status) for status in Status if status.is_failure]
        is_failed = jnp.any(jnp.isin(args[1], jnp.asarray(failures)))
        unit = eqx.error_if(jnp.ones((), leaf.dtype), is_failed, _MESSAGE)
        return unit * tangents[0]

    return custom_derivative(rule)(lambda leaf, _: leaf)(leaf, code)
