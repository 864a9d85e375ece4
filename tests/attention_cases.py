"""Shared helpers for tests over all registered attentions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import Parameters

from meanfield.attention import (
    AbstractBarycentre,
    Attention,
    attentions,
    gaussian_variants,
)
from meanfield.measures import Points
from meanfield.scores import Dot
from meanfield.tokens import Tokens

every_gaussian_variant = pytest.mark.parametrize("name", gaussian_variants())

IDENTITY = np.eye(1)
# Variants that depend on the order of tokens are tested in `test_sparse.py`.
ordered_variants = [
    n
    for n, make in attentions.items()
    if make(IDENTITY, IDENTITY, IDENTITY).coupling.reads_order
]
unordered_variants = [name for name in attentions if name not in ordered_variants]
every_variant = pytest.mark.parametrize("name", unordered_variants)
CONTINUOUS = [
    n
    for n in unordered_variants
    if attentions[n](IDENTITY, IDENTITY, IDENTITY).is_continuous
]
every_continuous_variant = pytest.mark.parametrize("name", CONTINUOUS)
# Sums over nodes are exact for variants without sorts: ranks differ among nodes.
SORTING_VARIANTS = [name for name in attentions if name.startswith("esp")]
VARIANTS_EXACT_AT_NODES = [
    name for name in gaussian_variants() if name not in SORTING_VARIANTS
]
every_variant_exact_at_nodes = pytest.mark.parametrize("name", VARIANTS_EXACT_AT_NODES)

# Sinkhorn stops at a marginal error of eps^(2/3): that, and not rounding, bounds it.
SOLVER_ULPS = {"sinkhorn": 3.0 * np.finfo(np.float64).eps ** (-1 / 3)}


def ulps(name: str, at_least: float = 300) -> float:
    """Tolerance of a comparison of `name`, in units of eps."""
    return max(at_least, SOLVER_ULPS.get(name, 0))


def eager_velocities(attention: Attention, mu: Points, at: Tokens) -> jax.Array:
    return attention.field(0.0, mu)(at)


velocities = eqx.filter_jit(eager_velocities)


def weights_of(attention: Attention, mu: Points) -> np.ndarray:
    """The attention matrix: the weight of each key for each query."""
    return np.asarray(_weights(attention, mu))


@eqx.filter_jit
def _weights(attention: Attention, mu: Points) -> jax.Array:
    barycentre = attention.coupling.barycentre(attention.score, mu)
    assert isinstance(barycentre, AbstractBarycentre)
    return barycentre.weights()


def biased_score(rng: np.random.Generator, p: Parameters) -> tuple[Dot, Parameters]:
    """A dot score with biases, and its parameters in NumPy."""
    q, k = 0.3 * rng.normal(size=(2, len(p.Q)))
    score = Dot(p.Q, p.K, p.epsilon, query_bias=jnp.asarray(q), key_bias=jnp.asarray(k))
    return score, Parameters(p.Q, p.K, p.V, p.epsilon, q, k)
