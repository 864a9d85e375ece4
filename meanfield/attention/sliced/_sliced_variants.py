"""The registered variants of expected sliced transport attention."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

from meanfield._array import number, positive
from meanfield._typing import Numbers, Scalar
from meanfield.attention._attention import Attention, variant
from meanfield.attention._options import expand_options
from meanfield.errors import InvalidInputError
from meanfield.scores import AbstractScore, Dot

from ._hard import HardSlices
from ._slices import directions
from ._soft import GaussianSoftSlices, PublishedSoftSlices, SoftSlices
from ._soft_mean import LineDistance, LineSquare


@dataclass(frozen=True)
class SlicedOptions:
    r"""Options for the slices and their weights.

    Attributes:
        epsilon: bandwidth that divides the costs; ranks do not depend on it.
        slices: `axis`, `random:COUNT[:SEED]`, COUNT alone, or rows of k numbers.
        tau: the inverse temperature $\tau$ of the slices; zero means equal weights.
    """

    epsilon: Scalar = 1.0
    slices: str | int | Numbers = "axis"
    tau: Scalar = 0.0

    def parts(self, Q: Numbers, K: Numbers) -> tuple[Dot, Array, Array | None]:
        r"""The score, the directions of the slices, and $\tau$ (`None` if zero)."""
        score = Dot(Q, K, self.epsilon)
        dtype = score.Q.dtype
        rows = directions(self.slices, score.Q.shape[0]).astype(dtype)
        is_number = isinstance(number("tau", self.tau), int | float)
        is_zero = is_number and self.tau == 0
        return score, rows, None if is_zero else jnp.asarray(self.tau, dtype)


@dataclass(frozen=True)
class SoftOptions(SlicedOptions):
    """Options for slices with soft ranks.

    Attributes:
        temperature: $t$ of the soft sorts, positive, in the units of $|u - v|^p$.
        power: the exponent $p$, which must be 1 or 2.
    """

    temperature: Scalar = 1.0
    power: int = 2

    def line_score(self, score: Dot) -> AbstractScore:
        """The score on the line whose softmax is the soft sort."""
        t = jnp.asarray(positive("temperature", self.temperature), score.Q.dtype)
        if self.power not in (1, 2):
            raise InvalidInputError(f"`power` must be 1 or 2; got {self.power!r}.")
        return LineDistance(t) if self.power == 1 else LineSquare(t)


@variant(
    "esp", "permutation", "orthogonal", "translation", cost=r"$n \log n$ for each slice"
)
@expand_options
def esp(Q: Numbers, K: Numbers, V: Numbers, *, options: SlicedOptions) -> Attention:
    r"""Each token averages the keys that have its ranks along the slices.

    The plan is an expected sliced transport plan between queries $Qx$ and keys $Ky$: a
    mean of plans along the coordinate axes or other `slices`, with weights
    $e^{-\tau D/\epsilon}$, where $D$ is the cost of a plan. Velocities jump where two
    tokens exchange ranks, so tokens take fixed steps, and their covariance is accurate
    to $O(dt)$. Source: shahbazi2025, section 3, where eq. (12) must be $NVG^\top$
    (ERRATA H2). The closed form on Gaussians is the limit of the law of the tokens, not
    of each velocity, and does not hold for $Q = K$ (ERRATA N2).

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the slices.

    Raises:
        InvalidInputError: if shapes do not match, or `slices` is invalid.
    """
    score, rows, tau = options.parts(Q, K)
    return Attention(score, HardSlices(rows, tau), V)


@variant(
    "esp-soft", "permutation", "orthogonal", "translation", cost="$n^2$ for each slice"
)
@expand_options
def esp_soft(Q: Numbers, K: Numbers, V: Numbers, *, options: SoftOptions) -> Attention:
    r"""Variant of `esp` with soft ranks, which make velocities smooth.

    The soft sort on each slice has rows proportional to $e^{-|u - v|^p/t}$. The weights
    of each token are divided by their sum, so that Gaussians stay Gaussian for $p = 2$;
    the published variant does not divide them (ERRATA H4). As $t \to 0$, this becomes
    `esp`. It commutes with translations only for $\tau = 0$: softly sorted keys have a
    different mean on each slice, which changes the costs $|Qx - Ky|^2$.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the slices.

    Raises:
        InvalidInputError: if shapes do not match, `slices` is invalid, `temperature`
            is not positive, or `power` is neither 1 nor 2.
    """
    score, rows, tau = options.parts(Q, K)
    line_score = options.line_score(score)
    if isinstance(line_score, LineSquare):
        return Attention(score, GaussianSoftSlices(rows, line_score, tau), V)
    return Attention(score, SoftSlices(rows, line_score, tau), V)


@variant("esp-soft-published", "permutation", "orthogonal", cost="$n^2$ for each slice")
@expand_options
def esp_soft_published(
    Q: Numbers, K: Numbers, V: Numbers, *, options: SoftOptions
) -> Attention:
    r"""Soft ranks as published, where the weights of a token do not sum to one.

    If the queries are Gaussian with variance one on the slice, and $t = 1$, the sum of
    weights falls from 1.13 at the centre to 0.64 at two standard deviations, and tends
    to zero farther out (ERRATA N2'). So tokens far from the centre move less, and
    Gaussians do not stay Gaussian. Source: shahbazi2025, section 3.1 and Algorithm 1.

    Args:
        Q: query matrix, k × d.
        K: key matrix, k × d.
        V: value matrix, d × d.
        options: options of the slices.

    Raises:
        InvalidInputError: if shapes do not match, `slices` is invalid, `temperature`
            is not positive, or `power` is neither 1 nor 2.
    """
    score, rows, tau = options.parts(Q, K)
    line_score = options.line_score(score)
    return Attention(score, PublishedSoftSlices(rows, line_score, tau), V)
