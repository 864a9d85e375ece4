"""Limits as the bandwidth vanishes: extrapolation, and what they are measured on."""

import itertools

from meanfield.attention import attentions
from meanfield.dynamics import Drift, Sum
from meanfield.fields import Affine
from meanfield.measures import Gaussian, Points
from meanfield.theorems._arrays import Array, JaxArray, eqx, jnp, np
from meanfield.theorems._prelude import Check
from meanfield.theorems._protocols import gap
from meanfield.theorems._vocabulary import Law, Parameters

BANDWIDTHS = 0.02 / 2.0 ** np.arange(4)
WIDER = 2 * BANDWIDTHS  # for what is summed over tokens


def extrapolated(label: str, values: Array, expected: Array, *, floor: float) -> Check:
    """The limit of values at bandwidths that halve, by Neville's scheme.

    The tolerance is twice the last change of the scheme, and `floor` for rounding.
    """
    rows = list(np.asarray(values))
    previous = rows[-1]
    for k in range(1, len(values)):
        previous = rows[-1]
        pairs = itertools.pairwise(rows)
        rows = [(2**k * near - far) / (2**k - 1) for far, near in pairs]
    size = float(np.max(np.abs(expected)))
    change = float(np.max(np.abs(rows[-1] - previous))) / size
    why = f"twice the last change of the extrapolation, {change:.2g}, and rounding"
    return gap(label, rows[-1], expected, tolerance=2 * change + floor, why=why)


SCALAR = Parameters(np.array([[0.8]]), np.array([[1.3]]), np.array([[-1.04]]))


def remainder(weights: Parameters, epsilon: JaxArray, widening: JaxArray) -> Sum:
    r"""$\bar T^\infty_\epsilon = T^\infty_\epsilon - W_Vx/\epsilon$.

    With the bandwidth of the kernel `widening` times as large: 1 is what is claimed.
    """
    Q, K, V = (jnp.asarray(part) for part in weights[:3])
    attention = attentions["sinkhorn"](Q, K, widening * V, epsilon=widening * epsilon)
    return Sum(attention, Drift(-V / epsilon))


@eqx.filter_jit
def _affine(
    weights: Parameters, mu: Gaussian, epsilon: JaxArray, widening: JaxArray
) -> Affine:
    at = lambda e: remainder(weights, e, widening).field(0.0, mu)
    return eqx.filter_vmap(at)(epsilon)


def on_gaussian(
    weights: Parameters, mu: Law, *, widening: float = 1.0
) -> tuple[Array, Array]:
    r"""$\bar T$ of a Gaussian in closed form, by the library, at each bandwidth.

    As its linear part, and its value at the mean.
    """
    epsilon, factor = jnp.asarray(BANDWIDTHS), jnp.asarray(widening)
    field = _affine(weights, mu.gaussian, epsilon, factor)
    linear = np.asarray(field.linear)
    return linear, linear @ mu.mean + np.asarray(field.offset)


def root_mean_square(linear: Array, centre: Array, mu: Law) -> Array:
    r"""The norm in $L^2(\mu)$ of affine fields, from their values at the mean."""
    spread = np.sum((linear @ mu.factor) ** 2, axis=(-2, -1))
    return np.sqrt(spread + np.sum(centre**2, axis=-1))


@eqx.filter_jit
def _at_tokens(
    weights: Parameters, mu: Points, epsilon: JaxArray, widening: JaxArray
) -> JaxArray:
    at = lambda e: remainder(weights, e, widening).field(0.0, mu)(mu.tokens)
    return eqx.filter_vmap(at)(epsilon)[..., 0]


def density(n: int) -> tuple[Array, Array, Array]:
    r"""A grid, weights of $\rho\propto(1-x^2)^4(1+0.6\sin 3x)$, and $\rho'/\rho$."""
    x = (2 * np.arange(n) + 1) / n - 1
    wave = 1 + 0.6 * np.sin(3 * x)
    w = (1 - x**2) ** 4 * wave
    return x, w / w.sum(), -8 * x / (1 - x**2) + 1.8 * np.cos(3 * x) / wave


def on_density(weights: Parameters, n: int, *, widening: float = 1.0) -> Array:
    r"""$\bar T$ of that density at its grid, at each wider bandwidth."""
    x, w, _ = density(n)
    mu = Points.weighted(x[:, None], w)
    factor = jnp.asarray(widening)
    return np.asarray(_at_tokens(weights, mu, jnp.asarray(WIDER), factor))
