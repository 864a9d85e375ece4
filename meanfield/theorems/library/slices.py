"""Sliced transport by the library: of one cloud, between two, and of many pairs."""

from jaxtyping import Float

from meanfield.attention import AbstractBarycentre, Attention, plans
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jax, jnp, np
from meanfield.theorems._vocabulary import Cloud, Parameters

from .attentions import matrices, points


def between(d: int) -> Parameters:
    """Queries are the first `d` coordinates of a token, and keys are the others.

    So one measure holds a pair of clouds, and the library matches these.
    """
    one, zero = np.eye(d), np.zeros((d, d))
    return Parameters(np.hstack([one, zero]), np.hstack([zero, one]), np.eye(2 * d))


def directions(rng: Rng, count: int, d: int = 2) -> Array:
    """Unit vectors, uniform on the sphere."""
    rows = rng.normal(size=(count, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sliced(
    p: Parameters, slices: Array, tau: float | Float[JaxArray, ""] = 0.0
) -> Attention:
    r"""The library's attention; $\tau$ as an array of JAX makes one program of many."""
    return p.attention("esp", slices=slices, tau=tau)


def coupling(attention: Attention, at: Cloud) -> Array:
    r"""The library's plan $\gamma$: its matrix, times the weights of the queries."""
    return at.share[:, None] * np.asarray(matrices(attention, at)[0])


def couplings(rows: Array, at: Cloud) -> Array:
    """The library's plans between the halves of tokens in the plane, slice by slice."""
    return np.array([coupling(sliced(between(2), row[None]), at) for row in rows])


def themselves(d: int) -> Parameters:
    """Tokens are their own queries, keys and values."""
    return Parameters(np.eye(d), np.eye(d), np.eye(d))


def plan_across(attention: Attention, queries: Cloud, keys: Cloud) -> Array:
    r"""The library's plan between two clouds, of any numbers of tokens."""
    return queries.share[:, None] * np.asarray(_weights(attention, queries, keys))


@eqx.filter_jit
def _weights(
    attention: Attention, queries: Cloud, keys: Cloud
) -> Float[JaxArray, "n m"]:
    coupling, sides = attention.coupling, (points(queries), points(keys))
    field = coupling.across(attention.score, *sides)
    assert isinstance(field, AbstractBarycentre)
    return field.weights()


@eqx.filter_jit
def _pair_plans(
    attention: Attention, z: Float[JaxArray, "pairs n e"]
) -> Float[JaxArray, "pairs n n"]:
    one = lambda tokens: plans(attention, 0.0, Points.uniform(tokens))[0]
    return jax.vmap(one)(z) / z.shape[1]


def pair_plans(
    x: Array, y: Array, slices: Array, tau: float | Float[JaxArray, ""] = 0.0
) -> Array:
    r"""The library's $\bar\gamma$ between clouds of equal weights, pair by pair."""
    attention = sliced(between(x.shape[-1]), slices, tau)
    pairs = jnp.asarray(np.concatenate([x, y], axis=2))
    return np.asarray(_pair_plans(attention, pairs))
