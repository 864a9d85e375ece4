"""The library's plans of sliced transport, for one cloud, two clouds or many pairs."""

import dataclasses

from jaxtyping import Float

from meanfield.attention import AbstractBarycentre, AbstractSoftSlices, Attention, plans
from meanfield.measures import Points
from meanfield.theorems._arrays import Array, JaxArray, Rng, eqx, jax, jnp, np
from meanfield.theorems._vocabulary import Cloud, Parameters

from .attentions import matrices, points


def pair_parameters(d: int) -> Parameters:
    """Parameters whose query is the first `d` coordinates and whose key is the rest.

    With these parameters, one measure represents a pair of clouds, which the library
    couples.
    """
    identity, zero = np.eye(d), np.zeros((d, d))
    return Parameters(
        np.hstack([identity, zero]), np.hstack([zero, identity]), np.eye(2 * d)
    )


def directions(rng: Rng, count: int, d: int = 2) -> Array:
    """Random unit vectors, uniform on the sphere."""
    rows = rng.normal(size=(count, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sliced_attention(
    p: Parameters, slices: Array, tau: float | Float[JaxArray, ""] = 0.0
) -> Attention:
    """The library's sliced attention; a JAX array for `tau` avoids recompilation."""
    return p.attention("esp", slices=slices, tau=tau)


def coupling(attention: Attention, cloud: Cloud) -> Array:
    r"""The library's plan $\gamma$: its attention matrix times the queries' weights."""
    return cloud.share[:, None] * np.asarray(matrices(attention, cloud)[0])


def pair_coupling(rows: Array, cloud: Cloud, tau: float = 0.0) -> Array:
    """The library's plan of all slices; tokens are queries and keys in the plane."""
    return coupling(sliced_attention(pair_parameters(2), rows, tau), cloud)


def couplings(rows: Array, cloud: Cloud) -> Array:
    """The library's plan of each slice; tokens are queries and keys in the plane."""
    return np.array([pair_coupling(row[None], cloud) for row in rows])


def identity_parameters(d: int) -> Parameters:
    """Parameters for which tokens are their own queries, keys and values."""
    return Parameters(np.eye(d), np.eye(d), np.eye(d))


def plan_across(attention: Attention, queries: Cloud, keys: Cloud) -> Array:
    """The library's plan between two clouds, which may have different sizes."""
    return queries.share[:, None] * np.asarray(_weights(attention, queries, keys))


@eqx.filter_jit
def _weights(
    attention: Attention, queries: Cloud, keys: Cloud
) -> Float[JaxArray, "n m"]:
    coupling, sides = attention.coupling, (points(queries), points(keys))
    field = coupling.cross_barycentre(attention.score, *sides)
    assert isinstance(field, AbstractBarycentre)
    return field.weights()


@eqx.filter_jit
def _pair_plans(
    attention: Attention, z: Float[JaxArray, "pairs n e"]
) -> Float[JaxArray, "pairs n n"]:
    pair_plan = lambda tokens: plans(attention, 0.0, Points.uniform(tokens))[0]
    return jax.vmap(pair_plan)(z) / z.shape[1]


def pair_plans(
    x: Array, y: Array, slices: Array, tau: float | Float[JaxArray, ""] = 0.0
) -> Array:
    r"""The library's mean plan $\bar\gamma$ for pairs of equally weighted clouds."""
    attention = sliced_attention(pair_parameters(x.shape[-1]), slices, tau)
    pairs = jnp.asarray(np.concatenate([x, y], axis=2))
    return np.asarray(_pair_plans(attention, pairs))


@eqx.filter_jit
def soft_velocities(
    attention: Attention,
    slices: Float[JaxArray, "l k"],
    cloud: Cloud,
    weights: Float[JaxArray, "n d"],
) -> tuple[Float[JaxArray, "n d"], Float[JaxArray, "l k"]]:
    """The library's velocities for trained slices, and a gradient in the slices.

    As in training, slices of any length are divided by their lengths. The gradient is
    that of the sum of all velocities times `weights`.
    """
    coupling, mu = attention.coupling, points(cloud)
    assert isinstance(coupling, AbstractSoftSlices)

    def velocities(slices: Float[JaxArray, "l k"]) -> Float[JaxArray, "n d"]:
        units = slices / jnp.linalg.norm(slices, axis=1, keepdims=True)
        unit_coupling = dataclasses.replace(coupling, directions=units)
        unit_attention = Attention(attention.score, unit_coupling, attention.value)
        return unit_attention.field(0.0, mu)(mu.tokens)

    actual, pull_back = jax.vjp(velocities, slices)
    return actual, pull_back(weights)[0]
