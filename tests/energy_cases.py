"""Pairwise energies and their derivatives, compiled once."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from energy_reference import interaction, sinkhorn_dual
from reference import Parameters, dot, squared_distance

from meanfield.energies import AbstractEnergy, energies
from meanfield.measures import Gaussian, Points
from meanfield.tokens import Tokens

PAIRS = ["interaction", "interaction-l2", "sinkhorn"]
POTENTIALS = 1e-9  # log marginals err by eps^(2/3) = 4e-11, times a factor


def make_energy(kind: str, p: Parameters) -> AbstractEnergy:
    Q, K, V = (jnp.asarray(M) for M in (p.Q, p.K, p.V))
    return energies[kind](Q, K, V, epsilon=p.epsilon)


def reference(kind: str, p: Parameters) -> Callable[[np.ndarray, np.ndarray], float]:
    return {
        "interaction": interaction(dot, p),
        "interaction-l2": interaction(squared_distance, p),
        "sinkhorn": sinkhorn_dual(p),
    }[kind]


@eqx.filter_jit
def value(energy: AbstractEnergy, mu: Points | Gaussian) -> jax.Array:
    return energy(mu)


@eqx.filter_jit
def gradient(energy: AbstractEnergy, mu: Points | Gaussian, at: Tokens) -> jax.Array:
    return energy.gradient(mu, at)


@eqx.filter_jit
def variation(energy: AbstractEnergy, mu: Points | Gaussian, at: Tokens) -> jax.Array:
    return energy.first_variation(mu, at)


@eqx.filter_jit
def moment_gradients(
    energy: AbstractEnergy, mu: Gaussian
) -> tuple[jax.Array, jax.Array]:
    return energy.moment_gradients(mu)
