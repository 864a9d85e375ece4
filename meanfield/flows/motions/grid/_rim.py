r"""Whether what a grid feels depends on what lies at its edges, or beyond them.

A tilted mean may look far out: under $e^{xy}$ a normal density looks from $x$ at
$y \approx \sigma^2 x$. A box that ends there cuts off what is looked at, while hardly
any mass is missing. What is beyond the box is not known; but a velocity that changes
when the outermost mass is left out would change as much by what is not there. Mass
that was outermost at the start stays so, wherever the flow carries it.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from meanfield._typing import Time
from meanfield.cells import along
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import Grid, Points

RIM = 1 / 32  # of the width of the box, emptied at each end for comparison
ASKED = 32  # places along each axis where velocities are compared
STILL = 1e-4  # of the largest velocity, below which the deviations of one are none


def rim_influence(
    dynamics: AbstractDynamics, t: Time, mu: Grid, rim: Float[Array, " d"]
) -> Float[Array, ""]:
    r"""How much of the velocity is owed to the rim of the box, or to what was there.

    $\int |\delta v|\,|x - \alpha|\,d\mu$ over the deviations of $v$ and $x$ in
    $L^2(\mu)$: for a change $\delta v$, a bound on the relative error that it makes of
    the rate of the covariance.

    Args:
        dynamics: gives the velocity.
        t: the time.
        mu: the density.
        rim: the mass that counts as outermost, at either end of each axis.
    """
    seen = _sampled(mu)
    # What moves between cells, as heat does, is of neighbours and not of the rim.
    velocity = lambda y: dynamics.field(t, mu.at(y)).parted[0](seen.tokens)
    both = jax.tree.map(
        lambda *parts: jnp.stack(parts), mu.state, without_outermost(mu, rim).state
    )
    v, other = jax.lax.map(velocity, both)  # compiled once
    return _share(seen, v, v - other)


def _share(
    seen: Points, v: Float[Array, "n d"], change: Float[Array, "n d"]
) -> Float[Array, ""]:
    p = seen.probabilities
    z, u = seen.tokens.x - (p @ seen.tokens.x)[None], v - (p @ v)[None]
    moved = jnp.sqrt(jnp.sum(p * _lengths(u) ** 2))
    moved = jnp.maximum(moved, STILL * jnp.max(_lengths(v)))
    whole = moved * jnp.sqrt(jnp.sum(p * _lengths(z) ** 2))
    part = jnp.sum(p * _lengths(change) * _lengths(z))
    return part / jnp.where(whole > 0, whole, 1)


def rim_masses(mu: Grid) -> Float[Array, " d"]:
    """The mass in the rim of the box, at either end of each axis: the larger one."""
    found = []
    for axis, edges in enumerate(mu.edges):
        outer = _outer(edges, RIM)
        slices = jnp.where(outer, _along(mu, axis), 0)
        middle = edges.shape[0] // 2
        found.append(jnp.maximum(jnp.sum(slices[:middle]), jnp.sum(slices[middle:])))
    return jnp.stack(found)


def without_outermost(mu: Grid, rim: Float[Array, " d"]) -> Grid:
    """The grid without its rim, and without the outermost masses of each axis."""
    masses = mu.state.masses
    for axis, edges in enumerate(mu.edges):
        slices = _along(mu, axis)
        low, high = jnp.cumsum(slices), jnp.cumsum(slices[::-1])[::-1]
        outer = (jnp.minimum(low, high) <= rim[axis]) | _outer(edges, RIM)
        masses = jnp.where(along(outer, axis + 1, masses.ndim), 0, masses)
    return mu.at(mu.state._replace(masses=masses))


def _along(mu: Grid, axis: int) -> Float[Array, " n"]:
    """The masses of slices across an axis."""
    others = tuple(k for k in range(mu.dimension + 1) if k != axis + 1)
    return jnp.sum(mu.state.masses, axis=others)


def _outer(edges: Float[Array, " faces"], share: float) -> Bool[Array, " n"]:
    rim = share * (edges[-1] - edges[0])
    outer = (edges[1:] <= edges[0] + rim) | (edges[:-1] >= edges[-1] - rim)
    return outer.at[jnp.array([0, -1])].set(True)


def _lengths(vectors: Float[Array, "n d"]) -> Float[Array, " n"]:
    return jnp.sqrt(jnp.sum(vectors**2, axis=1))


def _sampled(mu: Grid) -> Points:
    """The masses of blocks of cells, `ASKED` along each axis, at their middles."""
    masses, places = mu.state.masses, []
    for axis, edges in enumerate(mu.edges):
        n = edges.shape[0] - 1
        size = -(-n // ASKED)
        first = jnp.arange(0, n, size)
        places.append((edges[first] + edges[jnp.minimum(first + size, n)]) / 2)
        masses = jnp.add.reduceat(masses, first, axis=axis + 1)
    tokens = mu.chart.tokens(*places)
    return Points(tokens, jnp.log(masses.reshape(-1)))
