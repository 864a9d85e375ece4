r"""The dependence of velocities on the rim of a grid's box, and on what lies beyond.

Attention can reach far out: under $e^{xy}$ a token at $x$ in a normal density attends
to $y \approx \sigma^2 x$. A box that ends before that cuts off this part, although
hardly any mass is missing. The mass beyond the box is not known, but if velocities
change when the outermost mass is removed, the missing mass would change them as much.
Mass that is outermost at the start stays outermost under the flow.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._typing import Time
from meanfield.cells import align_axis
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Grid, Points

RIM = 1 / 32  # width of the rim at each end, as a fraction of the box
SAMPLES_PER_AXIS = 32  # positions along each axis at which velocities are compared
MIN_DEVIATION = (
    1e-4  # lower bound on the deviation of velocities, relative to the largest velocity
)


def rim_influence(
    dynamics: AbstractDynamics, t: Time, mu: Grid, rim: Float[Array, " d"]
) -> Float[Array, ""]:
    r"""Relative change of the velocity when the rim and the outermost mass are removed.

    It is $\int |\delta v|\,|x - \alpha|\,d\mu$ divided by the standard deviations of
    $v$ and $x$ under $\mu$, which bounds the relative error that a change $\delta v$
    causes in the rate of the covariance.

    Args:
        dynamics: the dynamics, which gives the velocity.
        t: the time.
        mu: the density.
        rim: the mass that counts as outermost, at either end of each axis.
    """
    sample = _sample_points(mu)
    # Only velocities are compared, because forces between cells act locally.
    velocity = lambda y: dynamics.field(t, mu.replace_coordinates(y)).parts[0](
        sample.tokens
    )
    states = jax.tree.map(
        lambda *parts: jnp.stack(parts), mu.state, remove_outermost(mu, rim).state
    )
    v, inner_velocity = jax.lax.map(velocity, states)  # compiles `velocity` only once
    return _share(sample, v, v - inner_velocity)


def _share(
    sample: Points, v: Float[Array, "n d"], change: Float[Array, "n d"]
) -> Float[Array, ""]:
    p = sample.probabilities
    z, u = sample.tokens.x - (p @ sample.tokens.x)[None], v - (p @ v)[None]
    deviation = jnp.sqrt(jnp.sum(p * _lengths(u) ** 2))
    deviation = jnp.maximum(deviation, MIN_DEVIATION * jnp.max(_lengths(v)))
    whole = deviation * jnp.sqrt(jnp.sum(p * _lengths(z) ** 2))
    part = jnp.sum(p * _lengths(change) * _lengths(z))
    return part / jnp.where(whole > 0, whole, 1)


def rim_masses(mu: Grid) -> Float[Array, " d"]:
    """For each axis, the larger of the masses in the rims at both ends of the box."""
    masses = []
    for axis, edges in enumerate(mu.edges):
        outer = _outer(edges, RIM)
        slices = jnp.where(outer, _slice_masses(mu, axis), 0)
        middle = edges.shape[0] // 2
        masses.append(jnp.maximum(jnp.sum(slices[:middle]), jnp.sum(slices[middle:])))
    return jnp.stack(masses)


def remove_outermost(mu: Grid, rim: Float[Array, " d"]) -> Grid:
    """The grid without the masses in its rim and the outermost masses of each axis."""
    masses = mu.state.masses
    for axis, edges in enumerate(mu.edges):
        slices = _slice_masses(mu, axis)
        low, high = jnp.cumsum(slices), jnp.cumsum(slices[::-1])[::-1]
        outer = (jnp.minimum(low, high) <= rim[axis]) | _outer(edges, RIM)
        masses = jnp.where(align_axis(outer, axis + 1, masses.ndim), 0, masses)
    return mu.replace_coordinates(mu.state._replace(masses=masses))


def _slice_masses(mu: Grid, axis: int) -> Float[Array, " n"]:
    """The masses of the slices perpendicular to an axis."""
    other_axes = tuple(k for k in range(mu.dimension + 1) if k != axis + 1)
    return jnp.sum(mu.state.masses, axis=other_axes)


def _outer(edges: Float[Array, " faces"], share: float) -> Bool[Array, " n"]:
    rim = share * (edges[-1] - edges[0])
    outer = (edges[1:] <= edges[0] + rim) | (edges[:-1] >= edges[-1] - rim)
    return outer.at[jnp.array([0, -1])].set(True)


def _lengths(vectors: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jnp.sqrt(jnp.sum(vectors**2, axis=1))


def _sample_points(mu: Grid) -> Points:
    """Tokens at the centres of blocks of cells, `SAMPLES_PER_AXIS` along each axis."""
    masses, places = mu.state.masses, []
    for axis, edges in enumerate(mu.edges):
        n = edges.shape[0] - 1
        size = -(-n // SAMPLES_PER_AXIS)
        first = jnp.arange(0, n, size)
        places.append((edges[first] + edges[jnp.minimum(first + size, n)]) / 2)
        masses = jnp.add.reduceat(masses, first, axis=axis + 1)
    tokens = mu.chart.tokens(*places)
    return Points(tokens, jnp.log(masses.reshape(-1)))
