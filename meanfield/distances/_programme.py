r"""Optimal plans between atoms, by a linear programme, to the rounding of their places.

POT's network simplex knows its potentials to the rounding of the largest cost, and one
outlier makes that larger than all other costs. So it is asked again about the reduced
costs $c_{ij} - u_i - v_j$, which have the same optimal plans and are small where mass
moves (iterative refinement: Gleixner, Steffy and Wolter 2016). What the potentials
still leave open is the gap between the cost of the plan and its lower bound.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from meanfield._pot import ot

from ._scale import (
    SHARP,
    beyond_rounding,
    power_of_two,
    root_error,
    root_mean_square,
)

MOST_PIVOTS = 10_000_000
ROUNDS = 5  # of refinement: each leaves about a millionth of the gap
ROOM = 2.0**20  # times the gap, above which a reduced cost is as good as infinite
LARGE = 2.0**10  # largest cost that the simplex is given: it adds one to it
UNITS = 2.0**52  # in a mass of one: flows are whole numbers, which add up exactly
TINY = float(np.finfo(float).tiny)
ROUNDED = 4  # units in the last place that a weight is known to

Costs = Float[np.ndarray, "n m"]


class Plan(NamedTuple):
    """A plan between two measures of mass one, and how far it is from optimal.

    Attributes:
        shares: the mass that goes from each atom to each.
        u: potentials of the rows; `u[i] + v[j]` is at most the cost of a unit.
        v: potentials of the columns.
        cost: of the plan.
        gap: the most that another plan could save.
    """

    shares: Costs
    u: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " m"]
    cost: float
    gap: float


def programme_distance(
    x: Float[np.ndarray, "n d"],
    p: Float[np.ndarray, " n"],
    y: Float[np.ndarray, "m d"],
    q: Float[np.ndarray, " m"],
) -> tuple[float, float]:
    """$W_2$ between atoms `x` of masses `p` and `y` of masses `q`, and its error."""
    scale = power_of_two(x - x[0], y - x[0])
    x, y = x / scale, y / scale
    masses = balanced(p, q)
    plan = optimal_plan(cdist(x, y, "sqeuclidean"), *masses)
    i, j = np.nonzero(plan.shares)
    ways = x[i] - y[j]
    shares = np.repeat(plan.shares[i, j], ways.shape[1])
    value = root_mean_square(ways.ravel(), shares)
    rest = _misfit(p, masses[0]) @ plan.u + _misfit(q, masses[1]) @ plan.v
    moved = abs(float(rest))
    unseen = TINY if value > 0 else 0.0  # squares below it are none
    error = root_error(value, plan.gap + moved + unseen, moved)
    return scale * value, scale * beyond_rounding(error, value)


def optimal_plan(
    costs: Costs, first: Float[np.ndarray, " n"], second: Float[np.ndarray, " m"]
) -> Plan:
    """A plan of least cost between whole masses of one sum, the best of some rounds."""
    reduced, u, v = costs, np.zeros(len(first)), np.zeros(len(second))
    cap, plans = math.inf, []
    for _ in range(ROUNDS):
        shares, du, dv = _simplex(np.minimum(reduced, cap), first, second)
        reduced = _less(reduced, du, dv)
        low = np.minimum(np.min(reduced, axis=0), 0)  # lowers v until no cost is less
        reduced, u, v = reduced - low, u + du, v + dv + low
        used = shares > 0
        gap, cost = (float(shares[used] @ c[used]) for c in (reduced, costs))
        plans.append(Plan(shares, u, v, cost, max(gap, 0.0)))
        if gap <= SHARP * cost:
            break
        cap = ROOM * float(np.max(reduced[used]))
    return min(plans, key=lambda plan: plan.gap)


def balanced(
    p: Float[np.ndarray, " n"], q: Float[np.ndarray, " m"]
) -> tuple[np.ndarray, np.ndarray]:
    """Masses in whole numbers of one sum, equal ones equal, without common factors."""
    first, second = _whole(p), _whole(q)
    sums = int(np.sum(first)), int(np.sum(second))
    common = math.gcd(*sums)
    if sums[0] // common * sums[1] < UNITS:
        return (
            first * float(sums[1] // common),
            second * float(sums[0] // common),
        )
    return _summing_to_all(p), _summing_to_all(q)


def _whole(p: np.ndarray) -> np.ndarray:
    units = np.maximum(np.rint(p * UNITS), 1).astype(np.int64)
    return units // np.gcd.reduce(units)


def _summing_to_all(p: np.ndarray) -> np.ndarray:
    """The rest goes to the heaviest, whatever the order of the atoms."""
    units = np.maximum(np.rint(p * UNITS), 1)
    units[np.argmax(units)] += UNITS - np.sum(units)
    return units


def _misfit(p: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """What whole masses leave of weights, beyond the rounding of these."""
    rest = p - masses / np.sum(masses)
    return np.where(np.abs(rest) > ROUNDED * np.spacing(p), rest, 0)


def _simplex(
    costs: Costs, first: np.ndarray, second: np.ndarray
) -> tuple[Costs, np.ndarray, np.ndarray]:
    scale = power_of_two(costs) / LARGE
    flow, log = ot.emd(first, second, costs / scale, numItermax=MOST_PIVOTS, log=True)
    return flow / np.sum(first), log["u"] * scale, log["v"] * scale


def _less(costs: Costs, u: np.ndarray, v: np.ndarray) -> Costs:
    """`costs - u - v`, rounded once: what is left is far smaller than its terms."""
    less, first = _two_sum(costs, -u[:, None])
    less, second = _two_sum(less, -v[None, :])
    return less + (first + second)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and what rounding took from it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
