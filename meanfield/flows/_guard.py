"""Derivatives of flows that failed: they raise, and are never numbers."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from meanfield._array import is_concrete
from meanfield._derivatives import ruled
from meanfield.endings import Status

from ._trajectory import Trajectory

_MESSAGE = (
    "A derivative was taken of a flow that failed: it ended as `max-steps`, "
    "`not-finite` or `unconverged`. Run the flow without the derivative, and read "
    "`raise_for_status()`."
)


def guarded(trajectory: Trajectory) -> Trajectory:
    """The trajectory, whose derivatives raise where it failed.

    What it holds then is the last good state, at another time than was asked for. Where
    the ending is known it is named; inside `jit` the program of the derivative, and no
    other, calls back to the host.

    Raises:
        SimulationFailed: if it failed, and is being differentiated now.
    """
    moved = trajectory.coordinates, trajectory.last
    if not is_concrete(trajectory.code):
        watch = lambda leaf: _watched(leaf, trajectory.code)
        coordinates, last = jax.tree.map(watch, moved)
        return replace(trajectory, coordinates=coordinates, last=last)
    if not all(map(is_concrete, jax.tree.leaves(moved))):
        trajectory.raise_for_status()
    return trajectory


def _watched(leaf: Array, code: Int[Array, "..."]) -> PyTree[Array]:
    def rule(_: Array, args: tuple, tangents: tuple) -> Array:
        failures = [int(status) for status in Status if status.failed]
        failed = jnp.any(jnp.isin(args[1], jnp.asarray(failures)))
        one = eqx.error_if(jnp.ones((), leaf.dtype), failed, _MESSAGE)
        return one * tangents[0]

    return ruled(rule)(lambda leaf, _: leaf)(leaf, code)
