r"""Sliced plans of a small cloud, and what they cost beside the best plan.

A plan of $L$ slices has at most $Ln$ pairs, and its sums are exactly equal. Weights
$e^{-\tau D_l/\epsilon}$ of the slices lead from the mean of all plans to that of the
cheapest slice.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from experiments.transport_plans.clouds import Cloud, measured, plan
from meanfield.attention import HardSlices, attentions

SLICES = "random:128"
TAUS = (0.0, 1.0, 100.0)


def sliced_plans(cloud: Cloud) -> list[Float[np.ndarray, "n n"]]:
    r"""The plans at each $\tau$."""
    return [plan(cloud, _coupling(cloud, tau)) for tau in TAUS]


def _coupling(cloud: Cloud, tau: float) -> HardSlices:
    value = np.eye(cloud.x.shape[1])
    made = attentions["esp"](cloud.Q, cloud.K, value, slices=SLICES, tau=tau)
    assert isinstance(made.coupling, HardSlices)
    return made.coupling


def measured_cost(cloud: Cloud, matrix: Float[np.ndarray, "n n"]) -> dict[str, float]:
    r"""The sums of a plan, and $\sum_{ij} P_{ij}|Qx_i - Kx_j|^2/n$ over the least."""
    costs = cdist(cloud.x @ cloud.Q.T, cloud.x @ cloud.K.T, "sqeuclidean")
    least = costs[linear_sum_assignment(costs)].sum()
    over = float(np.sum(matrix * costs) / least)
    return {**measured(matrix), "cost_over_least": over}
