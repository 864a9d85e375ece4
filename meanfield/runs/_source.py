"""Starting from a frame of another run."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from meanfield.errors import InvalidInputError
from meanfield.measures import AbstractMeasure, AbstractReduction, Gaussian, Points
from meanfield.spec import RunSpec
from meanfield.storage import RunStore


def source_measure(
    spec: RunSpec, reduction: Callable[[RunSpec, int], AbstractReduction]
) -> AbstractMeasure:
    """The frame of `spec.source` at time `spec.at`; a Gaussian of points if asked.

    Raises:
        InputFileError: if there is no such run.
        InvalidInputError: if it has no frame at that time, or it is a Gaussian and
            points are asked for.
    """
    dataset = RunStore.open(str(spec.source)).dataset()
    if "run" in dataset.dims:
        raise InvalidInputError(f"`{spec.source}` holds several draws; give one run.")
    frame = dataset.isel(time=_index(spec, dataset["time"].values))
    if "factor" in dataset:
        if spec.measure == "points":
            raise InvalidInputError(
                f"`{spec.source}` holds a Gaussian; go on with `measure = gaussian`."
            )
        mean, factor = frame["mean"].values, frame["factor"].values
        return Gaussian(jnp.asarray(mean), jnp.asarray(factor))
    x, weight = jnp.asarray(frame["x"].values), jnp.asarray(frame["weight"].values)
    points = Points.weighted(
        x,
        weight,
        position=jnp.asarray(frame["position"].values),
        reduction=reduction(spec, x.shape[0]),
    )
    return points if spec.measure == "points" else moments(points)


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; of low rank if they are few."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    centred = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean, 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * centred).T)


def _index(spec: RunSpec, times: np.ndarray) -> int:
    at = float(spec.at) if spec.at is not None else float(times[-1])
    index = int(np.argmin(np.abs(times - at)))
    if abs(times[index] - at) > 1e-9 * max(1.0, abs(at)):
        raise InvalidInputError(
            f"`{spec.source}` has no frame at t = {at:g}; the nearest is at t = "
            f"{times[index]:.17g}."
        )
    return index
