"""Measures out of arrays, and back: what a run starts from, stores and goes on from."""

import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractMeasure,
    AbstractReduction,
    Blocked,
    Dense,
    Gaussian,
    Points,
)
from meanfield.spec import RunSpec

Arrays = dict[str, np.ndarray]

VARIABLES = ("x", "weight", "position", "mean", "factor")  # as stores call them
DENSE_UP_TO = 512  # tokens: beyond, fresh n × n buffers cost more than a scan
BLOCK = 512


def frame_of(mu: AbstractMeasure) -> Arrays:
    """What moves of a measure, by the names of a store."""
    return frames_of(mu, mu.coordinates)


def frames_of(mu: AbstractMeasure, coordinates: PyTree[Array]) -> Arrays:
    """Coordinates of a measure of the kind of `mu`, or a stack of them, named."""
    if isinstance(mu, Gaussian):
        mean, factor = coordinates
        return {"mean": np.asarray(mean), "factor": np.asarray(factor)}
    return {"x": np.asarray(coordinates)}


def static_of(mu: AbstractMeasure) -> Arrays:
    """What does not move."""
    if not isinstance(mu, Points):
        return {}
    position = np.asarray(mu.tokens.position)
    return {"weight": np.asarray(mu.weights), "position": position}


def restored(
    spec: RunSpec, frame: Mapping[str, np.ndarray], static: Mapping[str, np.ndarray]
) -> AbstractMeasure:
    """The measure of a stored frame; the same arrays give the same bits."""
    if "factor" in frame:
        return Gaussian(jnp.asarray(frame["mean"]), jnp.asarray(frame["factor"]))
    return weighted(spec, frame["x"], static["weight"], static["position"])


def weighted(spec: RunSpec, x: Numbers, weights: Numbers, position: Numbers) -> Points:
    """Tokens whose sums are executed as the spec says.

    Raises:
        InvalidInputError: if a weight is negative, or `reduction` is not known.
    """
    how = reduction(spec, np.shape(x)[0])
    return Points.weighted(x, weights, position=position, reduction=how)


def as_measure(spec: RunSpec, points: Points) -> AbstractMeasure:
    """Points, or the Gaussian with their moments if the spec asks for one."""
    return points if spec.measure == "points" else moments(points)


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; of low rank if they are few."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    centred = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean[None, :], 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * centred).T)


def dimension_of(mu: AbstractMeasure) -> int:
    """The dimension of the space that a measure lives in."""
    if isinstance(mu, Points):
        return mu.tokens.x.shape[1]
    assert isinstance(mu, Gaussian)
    return mu.mean.shape[0]


def reduction(spec: RunSpec, n: int) -> AbstractReduction:
    """How sums over `n` tokens are executed.

    Raises:
        InvalidInputError: if `reduction` is none of `auto`, `dense`, `blocked[:SIZE]`.
    """
    kind, _, size = spec.reduction.partition(":")
    if kind == "auto" and not size:
        return Dense() if n <= DENSE_UP_TO else Blocked(BLOCK)
    if kind == "dense" and not size:
        return Dense()
    if kind == "blocked" and (not size or (size.isdecimal() and int(size) > 0)):
        return Blocked(int(size) if size else BLOCK)
    raise InvalidInputError(
        "`reduction` must be `auto`, `dense`, `blocked` or `blocked:SIZE`; got "
        f"`{spec.reduction}`."
    )


def moments_of(mu: AbstractMeasure) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance."""
    assert isinstance(mu, Gaussian | Points)
    return np.asarray(mu.mean), np.asarray(mu.covariance)


def largest_eigenvalue(mu: AbstractMeasure) -> float:
    """The largest eigenvalue of the covariance; infinite if that overflows."""
    covariance = moments_of(mu)[1]
    if not np.all(np.isfinite(covariance)):
        return math.inf
    return float(np.linalg.eigvalsh(covariance)[-1])
