r"""A cloud of tokens in the plane and its attention matrices.

The rows of the matrix $K^\ell$ of sander2022 sum to one if $\ell$ is odd. Then it is
the plan of this library, $\kappa_\mu(x_i, x_j)\,w_j$ with $w_j = 1/n$. The kernel of
the mean-field limit is $k^\ell = nK^\ell$ for $\ell \geq 1$, but $k^0 = K^0$ (ERRATA
S7).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import entr

from meanfield.attention import AbstractCoupling, Attention, plans
from meanfield.measures import Points
from meanfield.scores import Dot

LOW_SUM = 0.5  # column sums below this, half of an equal share, count as low


class Cloud(NamedTuple):
    """Tokens, and the matrices that map them to queries and keys."""

    x: Float[np.ndarray, "n d"]
    Q: Float[np.ndarray, "d d"]
    K: Float[np.ndarray, "d d"]
    epsilon: float


def gaussian_cloud(seed: int, *, n: int, epsilon: float) -> Cloud:
    """Draws tokens in the plane, and matrices Q and K, with standard normal entries."""
    rng = np.random.default_rng(seed)
    Q, K = rng.standard_normal((2, 2, 2))
    return Cloud(rng.standard_normal((n, 2)), Q, K, epsilon)


def plan(cloud: Cloud, coupling: AbstractCoupling) -> Float[np.ndarray, "n n"]:
    """The plan of a cloud, with a row for each query and a column for each key."""
    return batched_plans(cloud, coupling, cloud.x[None])[0]


def batched_plans(
    cloud: Cloud, coupling: AbstractCoupling, states: Float[np.ndarray, "m n d"]
) -> Float[np.ndarray, "m n n"]:
    """The plans of several clouds, with the matrices of `cloud`."""
    score = Dot(cloud.Q, cloud.K, cloud.epsilon)
    attention = Attention(score, coupling, np.eye(2))
    plan_at = lambda x: plans(attention, 0.0, Points.uniform(x))[0]
    return np.asarray(jax.vmap(plan_at)(jnp.asarray(states)))


def plan_numbers(matrix: Float[np.ndarray, "n n"]) -> dict[str, float | int]:
    r"""Sums of rows and columns of a matrix, and its effective number of pairs.

    The effective number is $e^H$, where $H$ is the entropy of the matrix divided by its
    mass. It is $n^2$ if all weights are equal, and $n$ for a permutation.
    """
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    mass = matrix.sum()
    return {
        "mass": float(mass),
        "row_min": float(rows.min()),
        "row_max": float(rows.max()),
        "column_min": float(columns.min()),
        "column_max": float(columns.max()),
        "error": float(marginal_error(matrix)),
        "n_low": int(np.count_nonzero(columns < LOW_SUM)),
        "n_pairs": float(np.exp(entr(matrix / mass).sum())),
    }


def marginal_error(matrix: Float[np.ndarray, "*m n n"]) -> Float[np.ndarray, "*m"]:
    """Largest deviation of a row or column sum from one."""
    rows, columns = matrix.sum(axis=-1), matrix.sum(axis=-2)
    return np.maximum(abs(rows - 1).max(axis=-1), abs(columns - 1).max(axis=-1))


def independent_states(seed: int, *, draws: int, n: int) -> Float[np.ndarray, "m n d"]:
    """Draws clouds of standard normal tokens, independent of `gaussian_cloud(seed)`."""
    return np.random.default_rng([seed, 1]).standard_normal((draws, n, 2))


def cloud_as_json(cloud: Cloud) -> dict[str, object]:
    """The cloud as JSON values."""
    return {
        "epsilon": cloud.epsilon,
        "Q": cloud.Q.tolist(),
        "K": cloud.K.tolist(),
        "x": cloud.x.tolist(),
    }
