r"""Sliced plans of a small cloud, and their cost relative to the optimal plan.

A plan of $L$ slices has at most $Ln$ pairs, and all its row and column sums are one.
A slice of cost $D_l$ has a weight proportional to $e^{-\tau D_l/\epsilon}$. So $\tau =
0$ gives the mean of all slices, and a large $\tau$ selects the slice of least cost.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from experiments.transport_plans.clouds import Cloud, plan, plan_numbers
from meanfield.attention import HardSlices, attentions

SLICES = "random:128"
TAUS = (0.0, 1.0, 100.0)


def sliced_plans(cloud: Cloud) -> list[Float[np.ndarray, "n n"]]:
    r"""The sliced plan of a cloud, for each $\tau$."""
    return [plan(cloud, _coupling(cloud, tau)) for tau in TAUS]


def _coupling(cloud: Cloud, tau: float) -> HardSlices:
    value = np.eye(cloud.x.shape[1])
    attention = attentions["esp"](cloud.Q, cloud.K, value, slices=SLICES, tau=tau)
    assert isinstance(attention.coupling, HardSlices)
    return attention.coupling


def cost_numbers(cloud: Cloud, matrix: Float[np.ndarray, "n n"]) -> dict[str, float]:
    r"""The result of `plan_numbers`, with the ratio of the cost to the least cost.

    The cost of a plan is $\sum_{ij} P_{ij}|Qx_i - Kx_j|^2$.
    """
    costs = cdist(cloud.x @ cloud.Q.T, cloud.x @ cloud.K.T, "sqeuclidean")
    least = costs[linear_sum_assignment(costs)].sum()
    ratio = float(np.sum(matrix * costs) / least)
    return {**plan_numbers(matrix), "cost_over_least": ratio}
