r"""Tokens under attention layers without skip connections, and under the flow.

A layer without skip connection is $x_i \leftarrow V\sum_jP_{ij}x_j$ and the flow is
$x_i' = V\sum_jP_{ij}x_j$; one layer corresponds to one unit of time. If $V = -I$ and
$A$ is symmetric and positive definite, the softmax flow contracts tokens along all
axes. In layers without skip connections the sign of $V$ does not matter for diameters,
since scores do not change if all tokens change sign.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from meanfield.attention import Attention, attentions
from meanfield.flows import adaptive, fixed, flow
from meanfield.measures import Gaussian, Points

LAYERS = 12
SLICES = {"esp": "random:8", "esp, one slice": "random:1"}
CUBIC = ("softmax", "sinkhorn")  # their weights have the form $a_i e^{s_{ij}} b_j$
NAMES = (*CUBIC, *SLICES)
START = 2.0  # every cloud starts with this $cD^2$, where $c = |A|/4\epsilon$
RTOL, DT = 1e-6, 1 / 16


class Sizes(NamedTuple):
    """Number of tokens, dimension, and number of draws."""

    n: int
    d: int
    draws: int


SIZES = {"quick": Sizes(24, 3, 4), "paper": Sizes(64, 4, 24)}


class Draws(NamedTuple):
    """Random `Q`, `K` and tokens; the first axis of each array indexes the draws."""

    Q: Float[np.ndarray, "draws d d"]
    K: Float[np.ndarray, "draws d d"]
    x: Float[np.ndarray, "draws n d"]

    @property
    def reach(self) -> Float[np.ndarray, " draws"]:
        r"""The constant $c = |A||V|/4\epsilon$ of each draw."""
        return np.linalg.norm(self.K.swapaxes(1, 2) @ self.Q, 2, axis=(1, 2)) / 4


def draw_tokens(sizes: Sizes, seed: int) -> Draws:
    r"""Draws scaled normal tokens, $Q$, and $K = SQ$ with $S = RR^\top + I/2$."""
    rng = np.random.default_rng(seed)
    Q, root = rng.normal(size=(2, sizes.draws, sizes.d, sizes.d)) / np.sqrt(sizes.d)
    S = root @ root.swapaxes(1, 2) + np.eye(sizes.d) / 2
    x = rng.normal(size=(sizes.draws, sizes.n, sizes.d))
    unscaled = Draws(Q, S @ Q, x)
    D = np.array([float(diameter(jnp.asarray(tokens))) for tokens in x])
    scale = np.sqrt(START / unscaled.reach) / D
    return unscaled._replace(x=x * scale[:, None, None])


def attention(name: str, Q: Array, K: Array) -> Attention:
    """The attention called `name`, with V = -I."""
    minus = -jnp.eye(Q.shape[0])
    if name in SLICES:
        return attentions["esp"](Q, K, minus, slices=SLICES[name])
    return attentions[name](Q, K, minus)


def diameter(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Largest distance between two tokens of a cloud."""
    return jnp.sqrt(jnp.max(jnp.sum((x[:, None] - x[None, :]) ** 2, axis=-1)))


def thickness(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Second singular value of the centred tokens, divided by the first."""
    values = jnp.linalg.svd(x - jnp.mean(x, axis=0)[None, :], compute_uv=False)
    return values[1] / values[0]


@eqx.filter_jit
def _layer_diameters(name: str, Q: Array, K: Array, x: Array) -> tuple[Array, Array]:
    def layer(x: Array, _: None) -> tuple[Array, Array]:
        mu = Points.uniform(x)
        return attention(name, Q, K).field(0.0, mu)(mu.tokens), diameter(x)

    last, diameters = jax.lax.scan(layer, x, length=LAYERS)
    return jnp.append(diameters, diameter(last)), thickness(last)


@eqx.filter_jit
def _flow(name: str, Q: Array, K: Array, x: Array) -> tuple[Array, Array]:
    stepping = fixed(DT) if name in SLICES else adaptive(rtol=RTOL)
    ts = np.arange(LAYERS + 1.0)
    run = flow(attention(name, Q, K), Points.uniform(x), ts, stepping=stepping)
    return run.code, jax.vmap(diameter)(run.coordinates)


class Collapse(NamedTuple):
    """Diameters before each layer and after the last layer, and final thickness."""

    diameters: Float[np.ndarray, "draws layers"]
    thickness: Float[np.ndarray, " draws"]


def layer_diameters(name: str, draws: Draws) -> Collapse:
    """Diameters of all draws in layers without skip connections."""
    runs = [
        _layer_diameters(name, *map(jnp.asarray, draw))
        for draw in zip(*draws, strict=True)
    ]
    rows, thick = zip(*runs, strict=True)
    return Collapse(np.stack(rows), np.stack(thick))


def flow_diameters(name: str, draws: Draws) -> Float[np.ndarray, "draws times"]:
    """Diameters of all draws along the flow, at the times 0, 1, …, `LAYERS`.

    Raises:
        RuntimeError: if a flow ends before its final time.
    """
    runs = [_flow(name, *map(jnp.asarray, draw)) for draw in zip(*draws, strict=True)]
    codes, rows = zip(*runs, strict=True)
    if any(map(int, codes)):
        raise RuntimeError(
            f"A flow under {name} attention ended before its final time; the status "
            f"codes of all draws are {[*map(int, codes)]}."
        )
    return np.stack(rows)


@eqx.filter_jit
def _widening(name: str, Q: Array, K: Array, x: Array) -> Array:
    start = Gaussian.from_moments(jnp.mean(x, axis=0), jnp.cov(x.T, ddof=0))
    run = flow(attention(name, Q, K), start, np.array([0.0, LAYERS]))
    size = lambda mu: jnp.linalg.norm(mu.covariance, 2)
    return jnp.sqrt(size(run.final) / size(start))


def gaussian_widening(name: str, draws: Draws) -> Float[np.ndarray, " draws"]:
    """Factor by which a Gaussian flow changes the largest standard deviation.

    The Gaussians start with the mean and covariance of the clouds.
    """
    members = zip(*draws, strict=True)
    return np.array([_widening(name, *map(jnp.asarray, draw)) for draw in members])


def layer_bound(layers: int) -> Float[np.ndarray, " layers"]:
    r"""Upper bound on $D_k/D_0$ in layers without skip connections.

    It is $u_k/u_0$ for the recursion $u_{k+1} = u_k\tanh u_k^2$.
    """
    u = [np.sqrt(START)]
    for _ in range(layers):
        u.append(u[-1] * np.tanh(u[-1] ** 2))
    return np.array(u) / u[0]


def flow_bound(ts: Float[np.ndarray, " times"]) -> Float[np.ndarray, " times"]:
    r"""Lower bound $(1 + 2cD(0)^2t)^{-1/2}$ on $D(t)/D(0)$ under the flow."""
    return 1 / np.sqrt(1 + 2 * START * ts)
