"""Choice of the planner for the sums of a flow.

A plan depends only on the initial state, so a run that continues from a stored frame
has the same plan as an uninterrupted one.
"""

from collections.abc import Callable
from typing import Any

import jax

from meanfield._array import is_concrete, is_tracing
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import (
    AbstractPlannedReduction,
    Cells,
    Chebyshev,
    Points,
    use_exact_sums,
)

from ._cell_plans import CellPlanner
from ._node_plans import NodePlanner
from ._planner import Planner

PLANNERS: dict[type[AbstractPlannedReduction], Planner[Any]] = {
    Chebyshev: NodePlanner(),
    Cells: CellPlanner(),
}


def plan_sums(dynamics: AbstractDynamics, mu: Points, t: Time) -> Points:
    """Tokens whose sums are planned to keep the field within the tolerance.

    If a reduction would not save time, its fallback is planned instead; if no fallback
    saves time, sums are exact. They are also exact inside `jit` or a derivative, where
    values are traced. Tokens whose reduction needs no plan, or already has one, are
    returned unchanged.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import plan_sums
        >>> from meanfield.measures import Chebyshev
        >>> x = jax.random.normal(jax.random.key(0), (20_000, 1))
        >>> mu = Points.uniform(x, reduction=Chebyshev(1e-6))
        >>> softmax = attentions["softmax"]([[1.0]], [[1.0]], [[1.0]])
        >>> plan = plan_sums(softmax, mu, 0.0).reduction
        >>> mu.reduction.counts is None, 8 < plan.counts[0] < 64
        (True, True)
    """
    reduction = mu.reduction
    if not isinstance(reduction, AbstractPlannedReduction) or reduction.is_planned:
        return mu
    if is_tracing() or not all(map(is_concrete, jax.tree.leaves((dynamics, mu)))):
        return use_exact_sums(mu)
    planner, plan = _planner(reduction), None
    if planner.is_applicable(dynamics, mu, t):
        plan = planner.plan(dynamics, mu, t)
    if plan is not None:
        return mu.replace_reduction(plan)
    return plan_sums(dynamics, mu.replace_reduction(reduction.fallback), t)


def interpolations(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> tuple[AbstractPlannedReduction, ...]:
    """The reductions that can save time for a field of tokens, judged by its shapes.

    Args:
        dynamics: the dynamics, which gives the field.
        mu: tokens whose sums are not planned yet.
        t: the time.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import interpolations
        >>> from meanfield.measures.reductions import Chebyshev
        >>> one, many = jnp.eye(1), jnp.zeros((100_000, 1))
        >>> nodes = Points.uniform(many, reduction=Chebyshev())
        >>> softmax, sliced = (attentions[k](one, one, one) for k in ("softmax", "esp"))
        >>> [len(interpolations(moves, nodes, 0.0)) for moves in (softmax, sliced)]
        [1, 0]
    """
    reduction = mu.reduction
    if not isinstance(reduction, AbstractPlannedReduction):
        return ()
    more = interpolations(dynamics, mu.replace_reduction(reduction.fallback), t)
    return (
        (reduction, *more)
        if _planner(reduction).is_applicable(dynamics, mu, t)
        else more
    )


def discard_plan(mu: Points) -> Points:
    """Tokens without the plan of their sums, so that sums can be planned again."""
    reduction = mu.reduction
    return (
        mu.replace_reduction(reduction.unplanned_copy)
        if isinstance(reduction, AbstractPlannedReduction)
        else mu
    )


def enlarge_plan(dynamics: AbstractDynamics, mu: Points, t: Time) -> Points | None:
    """Tokens with a larger plan, or with a plan for the fallback of their reduction.

    The result is `None` if the sums of `mu` have no plan.
    """
    reduction = mu.reduction
    if not isinstance(reduction, AbstractPlannedReduction) or not reduction.is_planned:
        return None
    larger_plan = _planner(reduction).enlarge(dynamics, mu, t)
    if larger_plan is not None:
        return mu.replace_reduction(larger_plan)
    return plan_sums(dynamics, mu.replace_reduction(reduction.fallback), t)


def sum_convergence(
    freeze: Callable[[Points], AbstractField], mu: Points, field: AbstractField
) -> Convergence | None:
    """Error of the field due to planned sums; `None` if sums are exact.

    Args:
        freeze: gives the field of tokens.
        mu: the tokens.
        field: their field.
    """
    reduction = mu.reduction
    if not isinstance(reduction, AbstractPlannedReduction) or not reduction.is_planned:
        return None
    return _planner(reduction).sum_convergence(reduction, freeze, mu, field)


def _planner(reduction: AbstractPlannedReduction) -> Planner[Any]:
    return next(
        planner for kind, planner in PLANNERS.items() if isinstance(reduction, kind)
    )
