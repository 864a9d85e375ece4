"""The registered variants of expected sliced transport."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import number, positive
from meanfield._typing import Numbers, Scalar
from meanfield.attention._attention import Attention, variant
from meanfield.attention._options import with_keywords
from meanfield.errors import InvalidInputError
from meanfield.scores import AbstractScore, Dot

from ._hard import HardSlices
from ._slices import directions
from ._soft import GaussianSoftSlices, PublishedSoftSlices, SoftSlices
from ._soft_mean import LineDistance, LineSquare


@dataclass(frozen=True)
class SlicedOptions:
    r"""Slices and their weights.

    Attributes:
        slices: `axis`, `random:COUNT[:SEED]` (a number is COUNT), or k numbers a row.
        tau: the inverse temperature $\tau$ of slices; zero weights all alike.
    """

    slices: str | int | Numbers = "axis"
    tau: Scalar = 0.0

    def arrays(self, score: Dot) -> tuple[Float[Array, "l k"], Float[Array, ""] | None]:
        r"""The directions of slices, and $\tau$ unless it is known to be zero."""
        dtype = score.Q.dtype
        rows = directions(self.slices, score.Q.shape[0]).astype(dtype)
        is_number = isinstance(number("tau", self.tau), int | float)
        is_zero = is_number and self.tau == 0
        return rows, None if is_zero else jnp.asarray(self.tau, dtype)


@variant(
    "esp", "permutation", "orthogonal", "translation", cost=r"$n \log n$ for each slice"
)
@with_keywords
def esp(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    options: SlicedOptions,
) -> Attention:
    r"""Tokens get the mean of the keys that share their ranks along slices.

    Expected sliced transport plans between queries $Qx$ and keys $Ky$, on the axes of
    their space or other `slices`, weighted by $e^{-\tau D/\epsilon}$ of their costs.
    Velocities jump where two tokens exchange their ranks, so tokens take steps of one
    length, and their covariance is right to $O(dt)$. Source: shahbazi2025, section 3,
    whose eq. (12) is to read $NVG^\top$ (ERRATA H2). The closed form on Gaussians is
    the limit of their law, not of each velocity, and not for $Q = K$ (ERRATA N2).

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides the costs; ranks do not see it.
        options: of slices.

    Raises:
        InvalidInputError: if shapes do not fit, or there are no such slices.
    """
    score = Dot(Q, K, epsilon)
    rows, inverse = options.arrays(score)
    return Attention(score, HardSlices(rows, inverse), V)


@variant(
    "esp-soft", "permutation", "orthogonal", "translation", cost="$n^2$ for each slice"
)
@with_keywords
def esp_soft(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    options: SlicedOptions,
    temperature: Scalar = 1.0,
    power: int = 2,
) -> Attention:
    r"""As `esp`, with ranks that tokens share with those near: smooth velocities.

    Sorts are rows of $e^{-|u - v|^p/t}$ on each slice, and the weights of each token
    are divided by their sum, which the published ones are not (ERRATA H4): Gaussians
    stay Gaussian for $p = 2$. As $t \to 0$ it becomes `esp`. It commutes with
    translations for $\tau = 0$ only: keys sorted softly have a mean of their own on
    each slice, which their costs $|Qx - Ky|^2$ see.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides the costs; ranks do not see it.
        options: of slices.
        temperature: $t$ of sorts, positive, in units of queries to the power $p$.
        power: $p$, 1 or 2.

    Raises:
        InvalidInputError: if shapes do not fit, there are no such slices, the
            temperature is not positive, or `power` is neither 1 nor 2.
    """
    score = Dot(Q, K, epsilon)
    rows, inverse = options.arrays(score)
    near = _near(power, temperature, score)
    if isinstance(near, LineSquare):
        return Attention(score, GaussianSoftSlices(rows, near, inverse), V)
    return Attention(score, SoftSlices(rows, near, inverse), V)


@variant("esp-soft-published", "permutation", "orthogonal", cost="$n^2$ for each slice")
@with_keywords
def esp_soft_published(
    Q: Numbers,
    K: Numbers,
    V: Numbers,
    *,
    epsilon: Scalar = 1.0,
    options: SlicedOptions,
    temperature: Scalar = 1.0,
    power: int = 2,
) -> Attention:
    r"""Soft sorts as published: the weights of a token do not sum to one.

    Of a Gaussian whose queries have variance one on the slice, their sum at $t = 1$
    falls from 1.13 in the middle to 0.64 two deviations out, and to zero (ERRATA N2'):
    tokens far out move less, and Gaussians do not stay Gaussian.
    Source: shahbazi2025, section 3.1 and Algorithm 1.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        epsilon: divides the costs; ranks do not see it.
        options: of slices.
        temperature: $t$ of sorts, positive, in units of queries to the power $p$.
        power: $p$, 1 or 2.

    Raises:
        InvalidInputError: if shapes do not fit, there are no such slices, the
            temperature is not positive, or `power` is neither 1 nor 2.
    """
    score = Dot(Q, K, epsilon)
    rows, inverse = options.arrays(score)
    near = _near(power, temperature, score)
    return Attention(score, PublishedSoftSlices(rows, near, inverse), V)


def _near(power: int, temperature: Scalar, score: Dot) -> AbstractScore:
    """The score on the line by which sorts are soft."""
    dtype = score.Q.dtype
    t = jnp.asarray(positive("temperature", temperature), dtype)
    if power not in (1, 2):
        raise InvalidInputError(f"`power` of a soft sort is 1 or 2; got {power!r}.")
    return LineDistance(t) if power == 1 else LineSquare(t)
