"""Flows in a part of the box of a grid: what comes through its walls is gone."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree
from typing_extensions import override

from meanfield.flows.stepping import AbstractGridSolver, Step
from meanfield.measures import Grid, GridState


class Walled(AbstractGridSolver):
    """Steps after each of which all cells but some are empty.

    Attributes:
        inner: moves the masses and the box.
        room: whether a cell may hold mass, by layer and axis.
    """

    inner: AbstractGridSolver
    room: Bool[Array, "..."]

    @override
    def order(self, terms: PyTree) -> int:
        return 1

    @override
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        moved, told = self.inner.advance(terms, step, y0)
        return cleared(moved, self.room), told


def cleared(state: GridState, room: Bool[Array, "..."]) -> GridState:
    """The state with nothing beyond the walls."""
    return state._replace(masses=jnp.where(room, state.masses, 0))


def between(mu: Grid, seen: tuple[Grid, ...], share: float) -> Bool[Array, "..."]:
    """The cells between walls that a share of the room about some means is cut by.

    Args:
        mu: whose cells.
        seen: grids in the same box, whose means the walls keep to either side of.
        share: of the room between an end of the box and the nearest mean, cut away.
    """
    xi = [jnp.linalg.solve(m.state.axes, m.mean - m.state.origin) for m in seen]
    low, high = jnp.min(jnp.stack(xi), axis=0), jnp.max(jnp.stack(xi), axis=0)
    room = jnp.ones(mu.state.masses.shape, bool)
    for axis, edges in enumerate(mu.edges):
        first = edges[0] + share * jnp.maximum(low[axis] - edges[0], 0)
        last = edges[-1] - share * jnp.maximum(edges[-1] - high[axis], 0)
        inside = (edges[:-1] >= first) & (edges[1:] <= last)
        shape = (1,) * (axis + 1) + (-1,) + (1,) * (mu.dimension - axis - 1)
        room &= inside.reshape(shape)
    return room
