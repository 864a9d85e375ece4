"""Flows in a part of a grid's box, with absorbing walls."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree
from typing_extensions import override

from meanfield.flows.stepping import AbstractGridSolver, Step
from meanfield.measures import Grid, GridState


class WalledSolver(AbstractGridSolver[GridState]):
    """A solver that empties all cells outside the walls after each step.

    Attributes:
        inner: the solver that moves the masses and the box.
        mask: whether a cell is between the walls, by layer and axis.
    """

    inner: AbstractGridSolver[GridState]
    mask: Bool[Array, "..."]

    @override
    def order(self, terms: PyTree) -> int:
        return 1

    @override
    def advance(self, terms: Any, step: Step, y0: GridState) -> tuple[GridState, Any]:
        state, rate = self.inner.advance(terms, step, y0)
        return clear_outside(state, self.mask), rate


def clear_outside(state: GridState, mask: Bool[Array, "..."]) -> GridState:
    """The state without mass outside the walls."""
    return state._replace(masses=jnp.where(mask, state.masses, 0))


def wall_mask(mu: Grid, grids: tuple[Grid, ...], share: float) -> Bool[Array, "..."]:
    """The cells of a grid between walls that cut off a fraction of its box.

    Args:
        mu: the grid with the cells.
        grids: grids in the same box, whose means all stay between the walls.
        share: the fraction to cut off from the space between each end of the box and
            the nearest mean.
    """
    xi = [jnp.linalg.solve(m.state.axes, m.mean - m.state.origin) for m in grids]
    low, high = jnp.min(jnp.stack(xi), axis=0), jnp.max(jnp.stack(xi), axis=0)
    mask = jnp.ones(mu.state.masses.shape, bool)
    for axis, edges in enumerate(mu.edges):
        first = edges[0] + share * jnp.maximum(low[axis] - edges[0], 0)
        last = edges[-1] - share * jnp.maximum(edges[-1] - high[axis], 0)
        is_inside = (edges[:-1] >= first) & (edges[1:] <= last)
        shape = (1,) * (axis + 1) + (-1,) + (1,) * (mu.dimension - axis - 1)
        mask &= is_inside.reshape(shape)
    return mask
