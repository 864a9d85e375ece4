"""Measures out of arrays, and back: what a run starts from, stores and goes on from."""

import math
from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.flows import DIMENSIONS
from meanfield.measures import (
    AbstractMeasure,
    AbstractReduction,
    Blocked,
    Chebyshev,
    Dense,
    Gaussian,
    Grid,
    GridState,
    Points,
)
from meanfield.spec import RunSpec
from meanfield.storage import STATES

from ._grids import BOXES, box_name, tokens_on_grid
from ._precision import dtype_of

Arrays = dict[str, np.ndarray]

# As stores call them: what moves of each kind of measure, and what does not.
MOVING = STATES
EDGES = ("edges_x", "edges_y")
STATIC = ("weight", "position", *EDGES)
CELLS = ("cell_x", "cell_y")
INTERPOLATED_FROM = 20_000  # tokens: below, exact sums take no longer than a plan


def frame_of(mu: AbstractMeasure) -> Arrays:
    """What moves of a measure, by the names of a store."""
    return frames_of(mu, mu.coordinates)


def frames_of(mu: AbstractMeasure, coordinates: PyTree[Array]) -> Arrays:
    """Coordinates of a measure of the kind of `mu`, or a stack of them, named."""
    parts = jax.tree.leaves(coordinates)
    named = dict(zip(MOVING[kind_of(mu)], map(np.asarray, parts), strict=True))
    if isinstance(mu, Grid) and mu.position is None:
        named["mass"] = np.squeeze(named["mass"], -1 - mu.dimension)  # its one layer
    return named


def coordinates_of(
    mu: AbstractMeasure, frames: Mapping[str, np.ndarray]
) -> PyTree[Array]:
    """What `frames_of` named, as coordinates of a measure of the kind of `mu`."""
    parts = [frames[name] for name in MOVING[kind_of(mu)]]
    if isinstance(mu, Grid) and mu.position is None:
        parts[0] = np.expand_dims(parts[0], -1 - mu.dimension)
    where = jax.tree.structure(mu.coordinates)
    return jax.tree.unflatten(where, jax.device_put(parts))


def kind_of(mu: AbstractMeasure) -> str:
    """How a spec calls measures of this kind."""
    kinds = {"points": Points, "gaussian": Gaussian, "grid": Grid}
    return next(name for name, kind in kinds.items() if isinstance(mu, kind))


def kind_in(frame: Iterable[object]) -> str:
    """The kind of measure whose variables are among these."""
    names = set(frame)
    return next(kind for kind, moving in MOVING.items() if names.issuperset(moving))


def still(mu: AbstractMeasure, frames: int) -> Arrays:
    """The frames of a measure that has ended: where it was."""
    here = frame_of(mu).items()
    return {name: np.broadcast_to(a, (frames, *a.shape)) for name, a in here}


def static_of(mu: AbstractMeasure) -> Arrays:
    """What does not move."""
    if isinstance(mu, Points):
        position = np.asarray(mu.tokens.position)
        weights = np.exp(np.asarray(mu.log_weights))
        return {"weight": weights, "position": position}
    if not isinstance(mu, Grid):
        return {}
    edges: Arrays = {
        name: np.asarray(own) for name, own in zip(EDGES, mu.edges, strict=False)
    }
    if mu.position is None:
        return edges
    return {**edges, "position": np.asarray(mu.position)}


def dims_of(mu: AbstractMeasure) -> dict[str, tuple[str, ...]]:
    """The dimensions of variables that depend on more than their name."""
    if not isinstance(mu, Grid):
        return {}
    cells = CELLS[: mu.dimension]
    if mu.position is None:
        return {"mass": ("time", *cells)}
    return {"mass": ("time", "layer", *cells), "position": ("layer",)}


def restored(
    spec: RunSpec, frame: Mapping[str, np.ndarray], static: Mapping[str, np.ndarray]
) -> AbstractMeasure:
    """The measure of a stored frame; the same arrays give the same bits."""
    kind = kind_in(frame)
    if kind == "gaussian":
        return Gaussian(*jax.device_put((frame["mean"], frame["factor"])))
    if kind == "grid":
        return _restored_grid(spec, frame, static)
    return weighted(spec, frame["x"], static["weight"], static["position"])


def _restored_grid(
    spec: RunSpec, frame: Mapping[str, np.ndarray], static: Mapping[str, np.ndarray]
) -> Grid:
    edges = tuple(jnp.asarray(static[n]) for n in EDGES if n in static)
    parts = {name: jnp.asarray(frame[name]) for name in MOVING["grid"]}
    position = jnp.asarray(static["position"]) if "position" in static else None
    masses = parts.pop("mass")
    state = GridState(masses if position is not None else masses[None], **parts)
    return Grid(state, edges, position, BOXES[box_name(spec)])


def weighted(spec: RunSpec, x: Numbers, weights: Numbers, position: Numbers) -> Points:
    """Tokens whose sums are executed as the spec says.

    Raises:
        InvalidInputError: if a weight is negative, or `reduction` is not known.
    """
    how = reduction(spec, *np.shape(x))
    return Points.weighted(x, weights, position=position, reduction=how)


def as_measure(spec: RunSpec, points: Points) -> AbstractMeasure:
    """Points, the Gaussian with their moments, or a density of the same, as asked.

    Raises:
        InvalidInputError: if a grid cannot hold them.
    """
    if spec.measure == "grid":
        return tokens_on_grid(spec, points)
    return points if spec.measure == "points" else moments(points)


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; of low rank if they are few."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    centred = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean[None, :], 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * centred).T)


def dimension_in(frame: Mapping[str, np.ndarray]) -> int:
    """The dimension of the space that a stored frame lives in."""
    axis = {"points": "x", "gaussian": "mean", "grid": "origin"}[kind_in(frame)]
    return frame[axis].shape[-1]


def reduction(spec: RunSpec, n: int, d: int) -> AbstractReduction:
    """How sums over `n` tokens in dimension `d` are executed.

    Interpolation is only asked for here: the flow plans it, or finds that exact sums
    cost less.

    Raises:
        InvalidInputError: if `reduction` is none of `auto`, `dense`, `blocked[:SIZE]`,
            `chebyshev[:TOLERANCE]`.
    """
    kind, _, given = spec.reduction.partition(":")
    number = _positive(given)
    if kind == "auto" and not given:
        pays = n >= INTERPOLATED_FROM and d <= DIMENSIONS
        return Chebyshev(_tolerance(spec)) if pays else Blocked()
    if kind == "dense" and not given:
        return Dense()
    if kind == "blocked" and (not given or (number and number.is_integer())):
        return Blocked(int(number) if number else None)
    if kind == "chebyshev" and (not given or number):
        return Chebyshev(number or _tolerance(spec))
    raise InvalidInputError(
        "`reduction` must be `auto`, `dense`, `blocked`, `blocked:SIZE`, `chebyshev` "
        f"or `chebyshev:TOLERANCE`; got `{spec.reduction}`."
    )


def _tolerance(spec: RunSpec) -> float:
    """An error of velocities that steps do not notice."""
    return spec.rtol or float(np.finfo(dtype_of(spec)).eps) ** 0.6


def _positive(text: str) -> float | None:
    """A finite positive number; `None` if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def moments_of(mu: AbstractMeasure) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance."""
    if isinstance(mu, Points):
        return _moments_of_tokens(mu)
    assert isinstance(mu, Gaussian | Grid)
    mean, covariance = _moments(mu)
    return np.asarray(mean), np.asarray(covariance)


@eqx.filter_jit
def _moments(mu: Gaussian | Grid) -> tuple[Array, Array]:
    return mu.mean, mu.covariance


def _moments_of_tokens(mu: Points) -> tuple[np.ndarray, np.ndarray]:
    # On the host: a program would take longer to compile than this takes to run, up to
    # millions of tokens.
    logs = np.asarray(mu.log_weights, np.float64)
    counted = ~np.isneginf(logs)
    weights, x = np.exp(logs - np.max(logs))[counted], np.asarray(mu.tokens.x)[counted]
    with np.errstate(over="ignore", invalid="ignore"):  # tokens that blow up
        mean = np.average(x, axis=0, weights=weights).astype(x.dtype)
        covariance = np.cov(x.T, aweights=weights, ddof=0)
        return mean, np.atleast_2d(covariance).astype(x.dtype)


def largest_eigenvalue(mu: AbstractMeasure) -> float:
    """The largest eigenvalue of the covariance; infinite if that overflows."""
    covariance = moments_of(mu)[1]
    if not np.all(np.isfinite(covariance)):
        return math.inf
    return float(np.linalg.eigvalsh(covariance)[-1])
