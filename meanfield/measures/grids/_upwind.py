r"""Positivity-preserving upwind fluxes of third order through the faces of cells.

This is MUSCL with profiles through three cell averages. Face values are limited by
bounds that admit smooth extrema but clip oscillations. They are also clipped to the
range from 0 to twice the average of the cell. Then the mass of a cell stays
non-negative, for any velocities, if the flow out of the cell sweeps at most half of it
in a step.

Source: van Leer 1979 (MUSCL); Suresh and Huynh 1997 for the bounds that keep both
monotonicity and accuracy. Unlike in the latter paper, the profiles are not quartic.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.cells import align_axis

from ._boxes import AbstractBox

# A face value differs from the average of its cell by at most STEEPNESS times the
# difference between this average and that of the previous cell. Steps that move mass by
# at most 1/(1 + STEEPNESS) = 0.4 of a cell are then monotone. The largest stable step
# moves it by half a cell, so monotone steps have CFL numbers up to 0.8.
STEEPNESS = 1.5
ROUNDING = 16  # bound on the rounding error of the mass that leaves a cell, in ulps


Pair = tuple[Array, Array]


class Fluxes(NamedTuple):
    """Fluxes through the faces perpendicular to one axis.

    Attributes:
        flux: mass per time through each face, towards larger coordinates.
        emptying: bound on the rate at which each cell is emptied, as a fraction of its
            mass per time.
    """

    flux: Float[Array, "*faces"]
    emptying: Float[Array, "*cells"]


def fluxes(
    masses: Float[Array, "*cells"],
    axis: int,
    h: Float[Array, " n"],
    velocity: Float[Array, "*faces"],
    box: AbstractBox,
) -> Fluxes:
    """Upwind fluxes along one axis, without inflow from outside the box."""
    w = jnp.moveaxis(box.apply_walls(velocity, axis), axis, -1)
    h = align_axis(h, masses.ndim - 1, masses.ndim)
    density = jnp.moveaxis(masses, axis, -1) / h
    left, right = _face_values(box.extend_density(density, 2), h)
    forward, backward = jnp.maximum(w, 0), jnp.minimum(w, 0)
    below, above = box.face_values(left, right)
    flux = box.apply_walls(forward * below + backward * above, masses.ndim - 1)
    leaving = forward[..., 1:] - backward[..., :-1]
    restore_axis = lambda array: jnp.moveaxis(array, -1, axis)
    share = 2 * (1 + ROUNDING * jnp.finfo(h.dtype).eps)
    return Fluxes(restore_axis(flux), restore_axis(share * leaving / h))


def _face_values(
    wider: Float[Array, "*wider"], h: Float[Array, "... n"]
) -> tuple[Float[Array, "*cells"], Float[Array, "*cells"]]:
    """Inner limits of the density at the left and the right face of each cell.

    Args:
        wider: the density, with two more cells at each end.
        h: the widths of the cells.
    """
    density, steps = wider[..., 2:-2], jnp.diff(wider)
    rose, rises = steps[..., 1:-2], steps[..., 2:-1]
    bends = jnp.diff(steps)
    curvatures = _minmod4(bends[..., :-1], bends[..., 1:])  # curvatures at the faces
    left_curvature, right_curvature = curvatures[..., :-1], curvatures[..., 1:]
    logs = _log_steps(wider[..., 1:-1])
    right = _profile(density, (rises, rose), (logs[1], logs[0]), _weights(h))
    right = _limit_offset(right, (rises, rose), (right_curvature, left_curvature))
    flipped_weights = _weights(jnp.flip(h, -1))
    towards = jnp.flip(flipped_weights[0], -1), jnp.flip(flipped_weights[1], -1)
    left = _profile(density, (-rose, -rises), (-logs[0], -logs[1]), towards)
    left = _limit_offset(left, (-rose, -rises), (left_curvature, right_curvature))
    clip = lambda offset: jnp.clip(density + offset, 0, 2 * density)
    return clip(left), clip(right)


def _profile(density: Array, steps: Pair, logs: Pair, weights: Pair) -> Array:
    r"""Face value of a profile through three averages, minus the average of the cell.

    If all averages are positive, the face value is $\bar\rho\,\delta/(1 - e^{-\delta})$
    where $\delta$ is twice the weighted sum of `logs`. It is exact for exponentials and
    of third order otherwise. So tails, which $e^{xy}$ amplifies, keep their relative
    accuracy. If an average is not positive, the profile is a parabola, which is also of
    third order.

    Args:
        density: averages of the cells.
        steps: differences of averages: to the next cell, then from the previous cell.
        logs: the same differences of log-averages; NaN if an average is not positive.
        weights: weights of the two differences.
    """
    flat = weights[0] * steps[0] + weights[1] * steps[1]
    delta = 2 * (weights[0] * logs[0] + weights[1] * logs[1])
    usable = jnp.isfinite(delta) & (delta != 0)
    safe = jnp.where(usable, delta, 1)
    return jnp.where(usable, density * (safe / -jnp.expm1(-safe) - 1), flat)


def _limit_offset(offset: Array, steps: Pair, curvatures: Pair) -> Array:
    """Limits an offset by the next step and by `STEEPNESS` times the previous step.

    Both limits are widened by a curvature if neighbours agree on its sign.

    Args:
        offset: face value minus the average of its cell.
        steps: differences of averages: to the next cell, which lies across the face,
            then from the previous cell.
        curvatures: curvatures at this face, and at the opposite face of the cell.
    """
    next_step, last_step = steps
    middle, trend = (next_step - curvatures[0]) / 2, STEEPNESS * last_step
    large = last_step / 2 + 4 / 3 * curvatures[1]
    low = jnp.maximum(_lowest(next_step, middle), _lowest(trend, large))
    high = jnp.minimum(_highest(next_step, middle), _highest(trend, large))
    return jnp.clip(offset, low, high)


def _log_steps(wider: Array) -> Pair:
    """Differences of the log-density, from the previous cell and to the next cell.

    They are NaN where a density is not positive.
    """
    logs = jnp.where(wider > 0, jnp.log(jnp.where(wider > 0, wider, 1)), jnp.nan)
    steps = jnp.diff(logs)
    return steps[..., :-1], steps[..., 1:]


def _minmod4(a: Array, b: Array) -> Array:
    """The value nearest to 0 of `a`, `b` and two extrapolations; 0 if signs differ."""
    c, d = 4 * a - b, 4 * b - a
    least = jnp.minimum(jnp.minimum(a, b), jnp.minimum(c, d))
    largest = jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))
    return jnp.maximum(least, 0) + jnp.minimum(largest, 0)


def _lowest(a: Array, b: Array) -> Array:
    return jnp.minimum(jnp.minimum(a, b), 0)


def _highest(a: Array, b: Array) -> Array:
    return jnp.maximum(jnp.maximum(a, b), 0)


def _weights(h: Float[Array, "... n"]) -> Pair:
    """Weights of the steps to the next cell and from the previous one, at right faces.

    With these weights the face value lies on the parabola through three averages.
    """
    last = jnp.concatenate([h[..., :1], h[..., :-1]], axis=-1)
    next_ = jnp.concatenate([h[..., 1:], h[..., -1:]], axis=-1)
    three = last + h + next_
    forward = h * (last + h) / ((h + next_) * three)
    backward = h * next_ / ((last + h) * three)
    return forward, backward
