"""Choice of the points at which a grid evaluates a field, before a flow."""

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
COEFFICIENT_COUNTS = (64, 128)  # numbers of nodes along each axis, tried in turn
TAIL = 1e-6  # largest omitted coefficient, as a fraction of the largest velocity


def choose_probe(dynamics: AbstractDynamics, mu: Grid, t: Time) -> Grid:
    """Adds a probe, which says where to evaluate a field, to a grid that has none yet.

    On a line, fields are evaluated at all faces. In the plane they are evaluated at
    Chebyshev nodes if these are fewer. The first entry of `LADDER` for which omitted
    coefficients are negligible would do for the given field. The next entry is used,
    since fields become sharper over time. Inside `jit` or a derivative values are
    traced, and all faces are used.
    """
    if mu.probe is not None:
        return mu
    is_known = all(is_concrete(leaf) for leaf in jax.tree.leaves((dynamics, mu)))
    faces = min(edges.shape[0] for edges in mu.edges)
    rungs = [p for p in LADDER if p < faces]
    if mu.dimension == 1 or not is_known or not rungs:
        return mu.replace_probe(EveryFace())
    for count in COEFFICIENT_COUNTS:
        sizes = np.asarray(_coefficients(dynamics, mu, t, count))
        for rung, next_rung in itertools.pairwise(rungs):
            tail_sizes = sizes[rung - rung // 8 :]
            if tail_sizes.size and np.max(tail_sizes) < TAIL:
                return mu.replace_probe(Nodes(next_rung))
    return mu.replace_probe(EveryFace())


@eqx.filter_jit
def _coefficients(
    dynamics: AbstractDynamics, mu: Grid, t: Time, count: int
) -> Float[Array, " count"]:
    """Largest Chebyshev coefficient of each degree, relative to the top speed."""
    field, _ = dynamics.field(jnp.asarray(t), mu).parts
    return Nodes(count).coefficients(mu.chart, field)
