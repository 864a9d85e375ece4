"""How many Chebyshev nodes a plane grid asks a field at, chosen before a flow."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._array import is_concrete
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import EveryFace, Grid, Nodes

LADDER = (16, 24, 32, 48, 64, 96, 128)
LOOKS = (64, 128)  # nodes along each axis that coefficients are taken from
TAIL = 1e-6  # of the largest velocity, that coefficients left out may have


def probed(dynamics: AbstractDynamics, mu: Grid, t: Time) -> Grid:
    """The grid with a probe, if it has none yet: what its field needs at a time.

    On a line, every face. In the plane as many Chebyshev nodes as leave out only
    coefficients of no account, and one rung of the ladder more, for fields sharpen; or
    every face, where that costs no more. Numbers must be known: inside a `jit` or under
    a derivative it is every face.
    """
    if mu.probe is not None:
        return mu
    known = all(is_concrete(leaf) for leaf in jax.tree.leaves((dynamics, mu)))
    faces = min(edges.shape[0] for edges in mu.edges)
    rungs = [p for p in LADDER if p < faces]
    if mu.dimension == 1 or not known or not rungs:
        return mu.asking(EveryFace())
    for look in LOOKS:
        sizes = np.asarray(_coefficients(dynamics, mu, t, look))
        for rung, roomier in itertools.pairwise(rungs):
            left_out = sizes[rung - rung // 8 :]
            if left_out.size and np.max(left_out) < TAIL:
                return mu.asking(Nodes(roomier))
    return mu.asking(EveryFace())


@eqx.filter_jit
def _coefficients(
    dynamics: AbstractDynamics, mu: Grid, t: Time, count: int
) -> Float[Array, " count"]:
    """The largest Chebyshev coefficients of a degree, over the largest velocity."""
    field, _ = dynamics.field(jnp.asarray(t), mu).parted
    return Nodes(count).coefficients(mu.chart, field)
