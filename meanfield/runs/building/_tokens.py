"""Tokens out of arrays: their weights, their positions, and how sums over them go."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield._typing import Numbers
from meanfield.errors import InvalidInputError
from meanfield.measures import (
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
    Gaussian,
    Points,
)
from meanfield.measures.reductions.cells import DIMENSIONS
from meanfield.spec import RunSpec

from ._arrays import read_array
from ._parameters import Draw, square, vector
from ._precision import dtype_of

INTERPOLATIONS = {"cells": Cells, "chebyshev": Chebyshev}
INTERPOLATED_FROM = 20_000  # tokens: below, exact sums take no longer than a plan


def placed(spec: RunSpec, d: int, draw: Draw) -> Gaussian:
    """The Gaussian of `mean` and `cov`, by which a standard cloud is spread."""
    mean, cov = vector("mean", spec.mean, d), square("cov", spec.cov, d, draw)
    return Gaussian.from_moments(mean, cov)


@jax.jit
def spread_by(frame: Gaussian, cloud: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """A standard cloud, with the mean and the covariance of a Gaussian."""
    return frame.mean[None, :] + cloud @ frame.factor.T


def tokens_of(spec: RunSpec, x: Array) -> Points:
    """Tokens with the weights of a spec, their positions in order."""
    n = x.shape[0]
    weights = np.ones(n) if spec.weights is None else vector("weights", spec.weights, n)
    position = np.arange(1, n + 1) / n
    return weighted(spec, x, *jax.device_put((weights, position)))


def counts_tokens(spec: RunSpec) -> bool:
    """Whether tokens are as many as a spec says, and nothing else counts them."""
    sources = (spec.source, spec.model, spec.weights)
    return sources == (None, None, None) and not spec.init.startswith("@")


def tokens_of_file(spec: RunSpec) -> Points | None:
    """Tokens that a file brings, if one does.

    Raises:
        InputFileError: if it cannot be read.
    """
    if not spec.init.startswith("@"):
        return None
    return tokens_of(spec, jax.device_put(states_in(spec.init[1:])))


def states_in(path: str) -> np.ndarray:
    """The states in a file, a row for each token.

    Raises:
        InputFileError: if it cannot be read.
    """
    x = read_array(path)
    return x[:, None] if x.ndim == 1 else np.atleast_2d(x)


def weighted(spec: RunSpec, x: Numbers, weights: Numbers, position: Numbers) -> Points:
    """Tokens whose sums are executed as the spec says.

    Raises:
        InvalidInputError: if a weight is negative, or `reduction` is not known.
    """
    how = reduction(spec, *np.shape(x))
    return Points.weighted(x, weights, position=position, reduction=how)


def moments(points: Points) -> Gaussian:
    """The Gaussian with the moments of `points`; of low rank if they are few."""
    n, d = points.tokens.x.shape
    if n >= d:
        return Gaussian.from_moments(points.mean, points.covariance)
    mass = points.weights / jnp.sum(points.weights)
    centred = jnp.where(mass[:, None] > 0, points.tokens.x - points.mean[None, :], 0)
    return Gaussian(points.mean, (jnp.sqrt(mass)[:, None] * centred).T)


def refuse_alone(spec: RunSpec) -> None:
    """Refuses what one device does alone, where several share the tokens.

    Raises:
        InvalidInputError: if the spec asks for such.
    """
    if spec.reduction.partition(":")[0] in ("cells", "chebyshev"):
        raise InvalidInputError(
            f"`reduction = {spec.reduction}` sums on one device, and sums of several "
            "devices are exact; leave it out, or the devices."
        )
    if spec.forward:
        raise InvalidInputError(
            "`forward` passes words through a network on one device; leave out the "
            "devices."
        )


def reduction(spec: RunSpec, n: int, d: int) -> AbstractReduction:
    """How sums over `n` tokens in dimension `d` are executed.

    Interpolation is only asked for here: the flow plans it, or finds that exact sums
    cost less.

    Raises:
        InvalidInputError: if `reduction` is none of `auto`, `dense`, `blocked[:SIZE]`,
            `cells[:TOLERANCE]`, `chebyshev[:TOLERANCE]`.
    """
    kind, _, argument = spec.reduction.partition(":")
    number = _positive(argument)
    if kind == "auto" and not argument:
        pays = n >= INTERPOLATED_FROM and d <= DIMENSIONS
        return _interpolated(_tolerance(spec)) if pays else Blocked()
    if kind == "dense" and not argument:
        return Dense()
    if kind == "blocked" and (not argument or (number and number.is_integer())):
        return Blocked(int(number) if number else None)
    if kind in INTERPOLATIONS and (not argument or (number and number < 1)):
        return INTERPOLATIONS[kind](number or _tolerance(spec))
    raise InvalidInputError(
        "`reduction` must be `auto`, `dense`, `blocked`, `blocked:SIZE`, `cells`, "
        "`cells:TOLERANCE`, `chebyshev` or `chebyshev:TOLERANCE`, a tolerance between "
        f"0 and 1; got `{spec.reduction}`."
    )


def _interpolated(tolerance: float) -> AbstractReduction:
    """Cells, whose error is bounded; where these are not worth it, nodes."""
    return Cells(tolerance, otherwise=Chebyshev(tolerance))


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
