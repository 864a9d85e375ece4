r"""Optimal plans between atoms by a linear programme, accurate to rounding.

POT's network simplex computes potentials with a rounding error proportional to the
largest cost, which a single outlier can make far larger than all others. So the simplex
is run again on the reduced costs $c_{ij} - u_i - v_j$, which have the same optimal
plans and are small where mass moves (iterative refinement: Gleixner, Steffy and Wolter
2016). The remaining error is the gap between the cost of the plan and the lower bound
from the potentials.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

from meanfield._pot import ot

from ._scale import SHARP, power_of_two, root_error, root_mean_square, significant_error

MOST_PIVOTS = 10_000_000
ROUNDS = 5  # rounds of refinement; each divides the gap by about a million
# Reduced costs are capped at ROOM times the largest reduced cost of a pair of atoms
# between which mass moves.
ROOM = 2.0**20
# Costs are scaled so that the largest is about LARGE. POT's network simplex adds 1 to
# the largest cost.
LARGE = 2.0**10
UNITS = 2.0**52  # integer units in a mass of one; integer flows add up exactly
TINY = float(np.finfo(float).tiny)
WEIGHT_ULPS = 4  # accuracy of weights, in units in the last place

Costs = Float[np.ndarray, "n m"]


class Plan(NamedTuple):
    """A plan between two measures of mass one, with its optimality gap.

    Attributes:
        shares: the mass moved between each pair of atoms.
        u: potentials of the rows; `u[i] + v[j]` is at most the cost of moving a unit.
        v: potentials of the columns.
        cost: cost of the plan.
        gap: upper bound on the cost that another plan could save.
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
    """$W_2$ of atoms `x` (masses `p`) and `y` (masses `q`), and its error."""
    scale = power_of_two(x - x[0], y - x[0])
    x, y = x / scale, y / scale
    masses = integer_masses(p, q)
    plan = optimal_plan(cdist(x, y, "sqeuclidean"), *masses)
    i, j = np.nonzero(plan.shares)
    ways = x[i] - y[j]
    shares = np.repeat(plan.shares[i, j], ways.shape[1])
    value = root_mean_square(ways.ravel(), shares)
    rest = _misfit(p, masses[0]) @ plan.u + _misfit(q, masses[1]) @ plan.v
    mass_error = abs(float(rest))
    underflow = TINY if value > 0 else 0.0  # squares below `TINY` underflow
    error = root_error(value, plan.gap + mass_error + underflow, mass_error)
    return scale * value, scale * significant_error(error, value)


def optimal_plan(
    costs: Costs, first: Float[np.ndarray, " n"], second: Float[np.ndarray, " m"]
) -> Plan:
    """The plan with the smallest gap, between integer masses with equal sums."""
    reduced_costs, u, v = costs, np.zeros(len(first)), np.zeros(len(second))
    cap, plans = math.inf, []
    for _ in range(ROUNDS):
        shares, du, dv = _simplex(np.minimum(reduced_costs, cap), first, second)
        reduced_costs = _subtract_potentials(reduced_costs, du, dv)
        # Lowering v by `low` makes all reduced costs non-negative.
        low = np.minimum(np.min(reduced_costs, axis=0), 0)
        reduced_costs, u, v = reduced_costs - low, u + du, v + dv + low
        support = shares > 0
        gap, cost = (
            float(shares[support] @ c[support]) for c in (reduced_costs, costs)
        )
        plans.append(Plan(shares, u, v, cost, max(gap, 0.0)))
        if gap <= SHARP * cost:
            break
        cap = ROOM * float(np.max(reduced_costs[support]))
    return min(plans, key=lambda plan: plan.gap)


def integer_masses(
    p: Float[np.ndarray, " n"], q: Float[np.ndarray, " m"]
) -> tuple[np.ndarray, np.ndarray]:
    """Integer masses of both measures with equal sums; equal masses stay equal."""
    first, second = _whole(p), _whole(q)
    sums = int(np.sum(first)), int(np.sum(second))
    common = math.gcd(*sums)
    if sums[0] // common * sums[1] < UNITS:
        return (first * float(sums[1] // common), second * float(sums[0] // common))
    return _summing_to_all(p), _summing_to_all(q)


def _whole(p: np.ndarray) -> np.ndarray:
    units = np.maximum(np.rint(p * UNITS), 1).astype(np.int64)
    return units // np.gcd.reduce(units)


def _summing_to_all(p: np.ndarray) -> np.ndarray:
    """Integer masses that sum to `UNITS`; the heaviest atom takes the remainder."""
    units = np.maximum(np.rint(p * UNITS), 1)
    units[np.argmax(units)] += UNITS - np.sum(units)
    return units


def _misfit(p: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Difference of weights and integer masses; zero if it is only a rounding error."""
    rest = p - masses / np.sum(masses)
    return np.where(np.abs(rest) > WEIGHT_ULPS * np.spacing(p), rest, 0)


def _simplex(
    costs: Costs, first: np.ndarray, second: np.ndarray
) -> tuple[Costs, np.ndarray, np.ndarray]:
    scale = power_of_two(costs) / LARGE
    flow, log = ot.emd(first, second, costs / scale, numItermax=MOST_PIVOTS, log=True)
    return flow / np.sum(first), log["u"] * scale, log["v"] * scale


def _subtract_potentials(costs: Costs, u: np.ndarray, v: np.ndarray) -> Costs:
    """`costs - u - v`, rounded once, since the result is far smaller than its terms."""
    less, first = _two_sum(costs, -u[:, None])
    less, second = _two_sum(less, -v[None, :])
    return less + (first + second)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
