"""How a flow on a grid ends where the grid can follow it no further."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from meanfield.dynamics import AbstractDynamics
from meanfield.endings import Status
from meanfield.measures import COARSE, Grid, roughness

from ._rim import rim_influence

ESCAPED = 1e-3  # of mass or second moment, beyond which the rest is another measure
RIM_FELT = 5e-4  # of the velocity, that may be owed to what lies at the edges
EVERY = 8  # accepted steps between two looks at the rim
BLURRED = 1e-3  # of the spread, that interpolated velocities may have been off by
ROUNDED = 1e3  # units of rounding of a place that a box must be wider than


def feels_rim(
    dynamics: AbstractDynamics,
    t: Float[Array, ""],
    mu: Grid,
    rim: Float[Array, " d"],
    n_accepted: Int[Array, ""],
) -> Bool[Array, ""]:
    """Whether velocities hang on what lies at the edges, at every eighth step.

    Never in a closed box, whose edges are those of the space.
    """
    no = jnp.zeros((), bool)
    if not mu.box.is_open:
        return no
    look = lambda: rim_influence(dynamics, t, mu, rim) > RIM_FELT
    return jax.lax.cond(n_accepted % EVERY == 0, look, lambda: no)


def ending(mu: Grid, felt: Bool[Array, ""]) -> Int[Array, ""]:
    """The ending of a flow whose state is `mu`; `finished` if it may go on.

    Args:
        mu: the state.
        felt: whether what lies at the edges is felt.
    """
    none = jnp.asarray(int(Status.FINISHED))
    width = _narrowest(mu)
    far = mu.outflow * (1 + (width / 2 / mu.spread) ** 2)
    escaped = far > ESCAPED * (mu.mass + mu.outflow)
    code = jnp.where(escaped | felt, int(Status.ESCAPE), none)
    blurred = mu.state.blur > BLURRED * mu.spread
    code = jnp.where(blurred, int(Status.UNCONVERGED), code)
    limits = jnp.finfo(mu.state.axes.dtype)
    least = jnp.sqrt(limits.tiny) / limits.eps  # whose square is still a number
    rounded = width <= jnp.maximum(ROUNDED * limits.eps * mu.size, least)
    collapsed = rounded | (roughness(mu.state.masses, mu.edges) > COARSE)
    return jnp.where(collapsed, int(Status.COLLAPSE), code)


def _narrowest(mu: Grid) -> Float[Array, ""]:
    """The width of the box where it is narrowest."""
    scales = jnp.linalg.svd(mu.state.axes, compute_uv=False)
    return scales[-1] * mu.reference_width
