"""Limits of vanishing bandwidth: extrapolation, and the measures used."""

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
WIDER = 2 * BANDWIDTHS  # bandwidths for measures that are given by tokens


def limit_gap(label: str, values: Array, expected: Array, *, floor: float) -> Check:
    """Checks the limit of values as bandwidths are halved, by Neville extrapolation.

    The tolerance is twice the last change of the extrapolation, plus `floor` for
    rounding.
    """
    rows = list(np.asarray(values))
    previous = rows[-1]
    for k in range(1, len(values)):
        previous = rows[-1]
        pairs = itertools.pairwise(rows)
        rows = [(2**k * fine - coarse) / (2**k - 1) for coarse, fine in pairs]
    size = float(np.max(np.abs(expected)))
    change = float(np.max(np.abs(rows[-1] - previous))) / size
    why = f"twice the last change of the extrapolation, {change:.2g}, and rounding"
    return gap(label, rows[-1], expected, tolerance=2 * change + floor, why=why)


SCALAR = Parameters(np.array([[0.8]]), np.array([[1.3]]), np.array([[-1.04]]))


def remainder(weights: Parameters, epsilon: JaxArray, widening: JaxArray) -> Sum:
    r"""The field $\bar T^\infty_\epsilon = T^\infty_\epsilon - W_Vx/\epsilon$.

    `widening` multiplies the bandwidth of the kernel; it is 1 in the claim.
    """
    Q, K, V, _ = weights
    attention = attentions["sinkhorn"](Q, K, widening * V, epsilon=widening * epsilon)
    return Sum(attention, Drift(-V / epsilon))


@eqx.filter_jit
def _affine(
    weights: Parameters, mu: Gaussian, epsilon: JaxArray, widening: JaxArray
) -> Affine:
    field = lambda e: remainder(weights, e, widening).field(0.0, mu)
    return eqx.filter_vmap(field)(epsilon)


def gaussian_remainder(
    weights: Parameters, mu: Law, *, widening: float = 1.0
) -> tuple[Array, Array]:
    r"""The library's $\bar T$ of a Gaussian, in closed form, at each bandwidth.

    Returns the linear part of the affine field $\bar T$ and its value at the mean.
    """
    epsilon, factor = jnp.asarray(BANDWIDTHS), jnp.asarray(widening)
    field = _affine(weights, mu.gaussian, epsilon, factor)
    linear = np.asarray(field.linear)
    return linear, linear @ mu.mean + np.asarray(field.offset)


def root_mean_square(linear: Array, centre: Array, mu: Law) -> Array:
    r"""Norms in $L^2(\mu)$ of affine fields whose value at the mean is `centre`."""
    spread = np.sum((linear @ mu.factor) ** 2, axis=(-2, -1))
    return np.sqrt(spread + np.sum(centre**2, axis=-1))


@eqx.filter_jit
def _token_velocities(
    weights: Parameters, mu: Points, epsilon: JaxArray, widening: JaxArray
) -> JaxArray:
    velocity = lambda e: remainder(weights, e, widening).field(0.0, mu)(mu.tokens)
    return eqx.filter_vmap(velocity)(epsilon)[..., 0]


def density(n: int) -> tuple[Array, Array, Array]:
    r"""Grid, its weights for $\rho\propto(1-x^2)^4(1+0.6\sin 3x)$, and $\rho'/\rho$."""
    x = (2 * np.arange(n) + 1) / n - 1
    wave = 1 + 0.6 * np.sin(3 * x)
    w = (1 - x**2) ** 4 * wave
    return x, w / w.sum(), -8 * x / (1 - x**2) + 1.8 * np.cos(3 * x) / wave


def density_remainder(weights: Parameters, n: int, *, widening: float = 1.0) -> Array:
    r"""The library's remainder $\bar T$ of `density(n)` at the bandwidths `WIDER`."""
    x, w, _ = density(n)
    mu = Points.weighted(x[:, None], w)
    factor = jnp.asarray(widening)
    return np.asarray(_token_velocities(weights, mu, jnp.asarray(WIDER), factor))
