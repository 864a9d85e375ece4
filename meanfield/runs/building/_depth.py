"""What the layers of a spec make of dynamics: one for each of them."""

from collections.abc import Sequence

import jax.numpy as jnp

from meanfield.dynamics import AbstractDynamics, Interpolated, Layers, stacked
from meanfield.spec import RunSpec


def in_depth(spec: RunSpec, members: Sequence[AbstractDynamics]) -> AbstractDynamics:
    """One dynamics that is each of these in its layer, or linear between them."""
    starts = [layer.t for layer in spec.layers]
    if spec.depth == "interpolated":
        return Interpolated(jnp.asarray(starts), stacked(members))
    end = max(spec.t, starts[-1] + 1.0)  # the last layer acts for ever
    return Layers(jnp.asarray([*starts, end]), stacked(members))
