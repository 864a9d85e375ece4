r"""The state that growth leads to, many decades of size from here.

A record holds few decades of size where the time is not fine enough for more: in single
precision $u^2 \propto 1/(t_* - t)$ grows by three until steps round to nothing. Growth
that turns exponential at the next decade has the same record. The field tells them
apart, which answers at states that no step reaches.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from meanfield.flows.motions import motion_of
from meanfield.measures import AbstractMeasure

from ._growth import SIZES


def ahead(
    mu0: AbstractMeasure, y: PyTree[Array], way: PyTree[Array], share: Float[Array, ""]
) -> PyTree[Array]:
    """The state on along the `way` of the last step, far enough for a law to show.

    Or a `share` of so far, in e-folds.
    """
    size, length = mu0.at(y).size, mu0.norm(way)
    stretch = jnp.exp(share * SIZES) * size / jnp.where(length > 0, length, 1)
    return motion_of(mu0).onward(y, way, stretch)


def log_rate(mu: AbstractMeasure, velocity: PyTree[Array]) -> Float[Array, ""]:
    """The log of the rate at which the log of its size grows; -inf if it does not.

    Where a field turns inwards its speed may be as large as in a blow-up.
    """
    log_size = lambda y: jnp.log(mu.at(y).size)
    # Of velocities whose products with the state are beyond all numbers, too.
    largest = jnp.max(
        jnp.stack([jnp.max(jnp.abs(v)) for v in jax.tree.leaves(velocity)])
    )
    scale = jnp.where(largest > 0, largest, 1)
    scaled = jax.tree.map(lambda part: part / scale, velocity)
    rate = jax.jvp(log_size, (mu.coordinates,), (scaled,))[1]
    grows = jnp.log(rate) + jnp.log(scale)
    return jnp.where(rate > 0, grows, jnp.where(rate <= 0, -jnp.inf, rate))
