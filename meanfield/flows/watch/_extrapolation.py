r"""States extrapolated by several decades of size, and their growth rates.

Rounding of the time limits how many decades of size a record can hold: in single
precision a size $u$ with $u^2 \propto 1/(t_* - t)$ grows by three decades before steps
vanish by rounding. Growth that becomes exponential in the next decade has the same
record. The field distinguishes the two, because it can be evaluated at states that no
step reaches.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from meanfield.flows.motions import motion_of
from meanfield.measures import AbstractMeasure

from ._growth import EXPONENT_TOLERANCE, LAW_E_FOLDS, Record, is_law_continued


def extrapolate_state(
    mu0: AbstractMeasure,
    y: PyTree[Array],
    increment: PyTree[Array],
    share: Float[Array, ""],
) -> PyTree[Array]:
    """The state extrapolated along the `increment` of the last step.

    With `share = 1` the size grows by the four decades that confirm a growth law; with
    a smaller `share`, the log-size grows proportionally less.
    """
    size, length = mu0.replace_coordinates(y).size, mu0.norm(increment)
    stretch = jnp.exp(share * LAW_E_FOLDS) * size / jnp.where(length > 0, length, 1)
    return motion_of(mu0).extrapolate(y, increment, stretch)


def log_rate(mu: AbstractMeasure, velocity: PyTree[Array]) -> Float[Array, ""]:
    """Log of the growth rate of the log-size; `-inf` if the size does not grow.

    The speed alone is not enough: a field that points inwards can be as fast.
    """
    log_size = lambda y: jnp.log(mu.replace_coordinates(y).size)
    # The velocity is scaled, because its products with the state may overflow.
    largest = jnp.max(
        jnp.stack([jnp.max(jnp.abs(v)) for v in jax.tree.leaves(velocity)])
    )
    scale = jnp.where(largest > 0, largest, 1)
    scaled_velocity = jax.tree.map(lambda part: part / scale, velocity)
    rate = jax.jvp(log_size, (mu.coordinates,), (scaled_velocity,))[1]
    log_growth = jnp.log(rate) + jnp.log(scale)
    return jnp.where(rate > 0, log_growth, jnp.where(rate <= 0, -jnp.inf, rate))


def is_law_confirmed(
    record: Record, extrapolate: Callable[[Array], tuple[Array, Array]]
) -> Bool[Array, ""]:
    """Whether the field at extrapolated states continues the growth law of a record.

    Args:
        record: the growth so far.
        extrapolate: gives, for a share, the e-folds of size from the newest point to
            the extrapolated state, and the log growth rate there.
    """
    # The rates are computed in a loop, which compiles the field only once.
    shares = jnp.array([0.0, 0.5, 1.0], record.ts.dtype)
    (_, half, whole), (rate, middle, end_rate) = jax.lax.map(extrapolate, shares)
    # Rates are compared with each other, too: due to rounding of the time, the record
    # can give too low an exponent.
    first, second = (middle - rate) / half, (end_rate - middle) / (whole - half)
    is_steady = ~(second < (1 - EXPONENT_TOLERANCE) * first)
    is_steady = jnp.isfinite(rate) & is_steady
    return is_steady & is_law_continued(record, whole, end_rate - rate)
