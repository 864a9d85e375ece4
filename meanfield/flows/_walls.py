"""Flows in a part of the box of a grid: what comes through its walls is gone."""

from typing import Any

import diffrax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree
from typing_extensions import override

from meanfield._typing import SolverTime
from meanfield.measures import Grid, GridState

from ._ssp import AbstractGridSolver


class Walled(AbstractGridSolver):
    """Steps after each of which all cells but some are empty.

    Attributes:
        inner: moves the masses and the box.
        room: whether a cell may hold mass, by layer and axis.
    """

    inner: diffrax.AbstractSolver
    room: Bool[Array, "..."]

    @override
    def order(self, terms: PyTree) -> int:
        return 1

    @override
    def step(
        self,
        terms: Any,
        t0: SolverTime,
        t1: SolverTime,
        y0: GridState,
        args: PyTree,
        solver_state: None,
        made_jump: Any,
    ) -> tuple[GridState, Any, dict[str, PyTree], None, diffrax.RESULTS]:
        moved, error, _, _, result = self.inner.step(
            terms, t0, t1, y0, args, None, made_jump
        )
        y1 = cleared(moved, self.room)
        return y1, error, {"y0": y0, "y1": y1}, None, result


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
