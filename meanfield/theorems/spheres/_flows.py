"""Flows on spheres by the library, and common cosines of equiangular tokens."""

from meanfield.attention import attentions
from meanfield.dynamics import (
    AbstractDynamics,
    Normalised,
    Prefix,
    mask_of,
    normalisation_of,
)
from meanfield.flows import adaptive, flow
from meanfield.measures import Points
from meanfield.spaces import Sphere
from meanfield.theorems._arrays import Array, jnp, np
from meanfield.theorems._protocols import Slack

RTOL = 1e-12
ADAPTIVE = Slack(
    tolerance=2e-10, why="100 steps of relative error 1e-12, magnified e^0.7 times"
)


def attention(
    name: str, d: int, beta: float, V: Array | None = None
) -> AbstractDynamics:
    """An attention with Q = K = I, and V = I by default, at inverse temperature β."""
    unit = np.eye(d)
    return attentions[name](unit, unit, unit if V is None else V, epsilon=1 / beta)


def masked_attention(name: str, d: int, beta: float, mask: str) -> AbstractDynamics:
    """An attention with a mask of positions."""
    return Prefix(attention(name, d, beta), mask_of(mask))


def path(
    dynamics: AbstractDynamics, x: Array, ts: Array, weights: Array | None = None
) -> Array:
    """Tokens at the times, on the unit sphere, `(times, n, d)`."""
    n = len(x)
    w, s = np.ones(n) if weights is None else weights, np.arange(1, n + 1) / n
    mu = Points.weighted(x, w, position=s, space=Sphere())
    run = flow(dynamics, mu, jnp.asarray(ts), stepping=adaptive(rtol=RTOL))
    return np.asarray(run.coordinates)


def free_path(dynamics: AbstractDynamics, norm: str, x: Array, ts: Array) -> Array:
    """Tokens at the times under a layer norm, `(times, n, d)`."""
    law = Normalised(dynamics, normalisation_of(norm))
    run = flow(law, Points.uniform(x), jnp.asarray(ts), stepping=adaptive(rtol=RTOL))
    return np.asarray(run.coordinates)


def first_cosine(x: Array) -> Array:
    """The cosine of the first two tokens at each time."""
    u = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return np.sum(u[:, 0] * u[:, 1], axis=-1)


def random_sphere(rng: np.random.Generator, n: int, d: int) -> Array:
    """Random tokens on the unit sphere."""
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def velocities(dynamics: AbstractDynamics, x: Array) -> Array:
    """The library's tangential velocities of tokens on the unit sphere."""
    mu = Points.uniform(x, space=Sphere())
    return np.asarray(mu.transport(dynamics.field(0.0, mu)))


def images(dynamics: AbstractDynamics, x: Array) -> Array:
    """The library's velocities of tokens in space, the output of a layer."""
    mu = Points.uniform(x)
    return np.asarray(dynamics.field(0.0, mu)(mu.tokens))
