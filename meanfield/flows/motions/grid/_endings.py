"""Endings of flows on grids: escape, collapse, and blurred velocities."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.measures import MAX_ROUGHNESS, Grid, roughness

from ._rim import rim_influence

ESCAPE_SHARE = 1e-3  # largest fraction of mass or second moment that may leave the box
RIM_SHARE = 5e-4  # largest relative change of velocities if the rim is removed
CHECK_INTERVAL = 8  # number of accepted steps between two checks of the rim
BLUR_SHARE = 1e-3  # largest interpolation error of positions, relative to the spread
MIN_ROUNDINGS = 1e3  # smallest width of a box, in rounding errors of a position


def has_rim_influence(
    dynamics: AbstractDynamics,
    t: Float[Array, ""],
    mu: Grid,
    rim: Float[Array, " d"],
    n_accepted: Int[Array, ""],
) -> Bool[Array, ""]:
    """Whether velocities depend on the rim of the box, checked at every eighth step.

    It is always false for a closed box, because no mass lies beyond its walls.
    """
    no = jnp.zeros((), bool)
    if not mu.box.is_open:
        return no
    check_rim = lambda: rim_influence(dynamics, t, mu, rim) > RIM_SHARE
    return jax.lax.cond(n_accepted % CHECK_INTERVAL == 0, check_rim, lambda: no)


def ending(mu: Grid, is_influenced: Bool[Array, ""]) -> Int[Array, ""]:
    """The code of the ending at state `mu`; `finished` if the flow continues.

    Args:
        mu: the state.
        is_influenced: whether velocities depend on the rim of the box.
    """
    default_code = jnp.asarray(int(Status.FINISHED))
    width = _narrowest(mu)
    outflow_moment = mu.outflow * (1 + (width / 2 / mu.spread) ** 2)
    has_escaped = outflow_moment > ESCAPE_SHARE * (mu.mass + mu.outflow)
    code = jnp.where(has_escaped | is_influenced, int(Status.ESCAPE), default_code)
    is_blurred = mu.state.blur > BLUR_SHARE * mu.spread
    code = jnp.where(is_blurred, int(Status.UNCONVERGED), code)
    limits = jnp.finfo(mu.state.axes.dtype)
    least = jnp.sqrt(limits.tiny) / limits.eps  # a width whose square is not subnormal
    is_too_narrow = width <= jnp.maximum(MIN_ROUNDINGS * limits.eps * mu.size, least)
    has_collapsed = is_too_narrow | (
        roughness(mu.state.masses, mu.edges) > MAX_ROUGHNESS
    )
    return jnp.where(has_collapsed, int(Status.COLLAPSE), code)


def _narrowest(mu: Grid) -> Float[Array, ""]:
    """The width of the box where it is narrowest."""
    scales = jnp.linalg.svd(mu.state.axes, compute_uv=False)
    return scales[-1] * mu.reference_width
