r"""Fluxes through the faces of cells: upwind, of third order, and positive.

MUSCL with profiles through three cell averages. Their values at faces are kept between
bounds that let smooth extrema pass and clip oscillations, and between 0 and twice the
average of the cell: a cell that gives at most half of its content away in a step then
stays non-negative, for any velocities.

Source: van Leer 1979 (MUSCL); Suresh and Huynh 1997 for the bounds that keep both
monotonicity and accuracy, here around other profiles than their quartic.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield.cells import along

from ._boxes import AbstractBox

# How far beyond its cell a face value may lie, in steps to the cell behind: one such
# that steps up to 1/(1 + STEEPNESS) of a cell are monotone, what `SAFETY` allows.
STEEPNESS = 1.5
ROUNDING = 16  # units that what leaves a cell may be rounded up by, in all


Pair = tuple[Array, Array]


class Fluxes(NamedTuple):
    """What passes through the faces across one axis.

    Attributes:
        through: mass per time through each face, towards larger coordinates.
        emptying: the share of each cell that may leave it, per time.
    """

    through: Float[Array, "*faces"]
    emptying: Float[Array, "*cells"]


def fluxes(
    masses: Float[Array, "*cells"],
    axis: int,
    h: Float[Array, " n"],
    velocity: Float[Array, "*faces"],
    box: AbstractBox,
) -> Fluxes:
    """Upwind fluxes along one axis; nothing flows in from outside of a box."""
    w = jnp.moveaxis(box.let_through(velocity, axis), axis, -1)
    h = along(h, masses.ndim - 1, masses.ndim)
    density = jnp.moveaxis(masses, axis, -1) / h
    left, right = _face_values(box.continued(density, 2), h)
    ahead, back = jnp.maximum(w, 0), jnp.minimum(w, 0)
    through = ahead * _padded(right, 1, 0) + back * _padded(left, 0, 1)
    leaving = ahead[..., 1:] - back[..., :-1]
    home = lambda array: jnp.moveaxis(array, -1, axis)
    share = 2 * (1 + ROUNDING * jnp.finfo(h.dtype).eps)
    return Fluxes(home(through), home(share * leaving / h))


def _face_values(
    wider: Float[Array, "*wider"], h: Float[Array, "... n"]
) -> tuple[Float[Array, "*cells"], Float[Array, "*cells"]]:
    """The density at the left and the right face of each cell, seen from inside.

    Args:
        wider: the density, with two cells beyond either wall.
        h: the widths of the cells.
    """
    density, steps = wider[..., 2:-2], jnp.diff(wider)
    rose, rises = steps[..., 1:-2], steps[..., 2:-1]
    bends = jnp.diff(steps)
    curved = _agreed(bends[..., :-1], bends[..., 1:])  # at the faces
    before, after = curved[..., :-1], curved[..., 1:]
    logs = _log_steps(wider[..., 1:-1])
    right = _profile(density, (rises, rose), (logs[1], logs[0]), _weights(h))
    right = _bounded(right, (rises, rose), (after, before))
    mirrored = _weights(jnp.flip(h, -1))
    towards = jnp.flip(mirrored[0], -1), jnp.flip(mirrored[1], -1)
    left = _profile(density, (-rose, -rises), (-logs[0], -logs[1]), towards)
    left = _bounded(left, (-rose, -rises), (before, after))
    kept = lambda offset: jnp.clip(density + offset, 0, 2 * density)
    return kept(left), kept(right)


def _profile(density: Array, steps: Pair, logs: Pair, weights: Pair) -> Array:
    r"""What the face value of a profile through three averages exceeds the middle by.

    $\bar\rho\,\delta/(1 - e^{-\delta})$ where all are positive, $\delta$ from steps of
    logarithms: exact for exponentials, of third order for the rest, so that tails,
    which $e^{xy}$ amplifies, keep their relative size. Else a parabola, of third order
    as well.

    Args:
        density: averages of the cells.
        steps: to the next cell, on the other side of the face, and from the last one.
        logs: the same of the logarithms; NaN where one of them has none.
        weights: what either step counts.
    """
    flat = weights[0] * steps[0] + weights[1] * steps[1]
    delta = 2 * (weights[0] * logs[0] + weights[1] * logs[1])
    usable = jnp.isfinite(delta) & (delta != 0)
    safe = jnp.where(usable, delta, 1)
    return jnp.where(usable, density * (safe / -jnp.expm1(-safe) - 1), flat)


def _bounded(offset: Array, steps: Pair, curved: Pair) -> Array:
    """An offset kept between the cell and the next, and the cell and its trend.

    Either range is widened by a curvature where neighbours agree on one.

    Args:
        offset: of a face value from the average of its cell.
        steps: to the next cell, on the other side of the face, and from the last one.
        curved: at this face, and at the opposite one.
    """
    ahead, behind = steps
    middle, trend = (ahead - curved[0]) / 2, STEEPNESS * behind
    large = behind / 2 + 4 / 3 * curved[1]
    low = jnp.maximum(_lowest(ahead, middle), _lowest(trend, large))
    high = jnp.minimum(_highest(ahead, middle), _highest(trend, large))
    return jnp.clip(offset, low, high)


def _log_steps(wider: Array) -> Pair:
    """Steps of the logarithm from the last cell and to the next; NaN without one."""
    logs = jnp.where(wider > 0, jnp.log(jnp.where(wider > 0, wider, 1)), jnp.nan)
    steps = jnp.diff(logs)
    return steps[..., :-1], steps[..., 1:]


def _agreed(a: Array, b: Array) -> Array:
    """The least of two second differences and extrapolations; 0 if signs differ."""
    c, d = 4 * a - b, 4 * b - a
    least = jnp.minimum(jnp.minimum(a, b), jnp.minimum(c, d))
    most = jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))
    return jnp.maximum(least, 0) + jnp.minimum(most, 0)


def _lowest(a: Array, b: Array) -> Array:
    return jnp.minimum(jnp.minimum(a, b), 0)


def _highest(a: Array, b: Array) -> Array:
    return jnp.maximum(jnp.maximum(a, b), 0)


def _weights(h: Float[Array, "... n"]) -> Pair:
    """What steps to the next and from the last average count at the right face.

    Those of the parabola with three given averages.
    """
    last = jnp.concatenate([h[..., :1], h[..., :-1]], axis=-1)
    next_ = jnp.concatenate([h[..., 1:], h[..., -1:]], axis=-1)
    three = last + h + next_
    forward = h * (last + h) / ((h + next_) * three)
    backward = h * next_ / ((last + h) * three)
    return forward, backward


def _padded(array: Array, before: int, after: int) -> Array:
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(before, after)])
