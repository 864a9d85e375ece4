"""Which of the ways to interpolate plans the sums of a flow.

A plan is a function of the state at the start alone: a run that goes on from a stored
frame plans as it would have.
"""

from collections.abc import Callable
from typing import Any

import jax

from meanfield._array import is_concrete, is_tracing
from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import AbstractPlanned, Cells, Chebyshev, Points, exactly

from ._cell_plans import CellPlanner
from ._node_plans import NodePlanner
from ._planner import Planner

PLANNERS: dict[type[AbstractPlanned], Planner[Any]] = {
    Chebyshev: NodePlanner(),
    Cells: CellPlanner(),
}


def planned(dynamics: AbstractDynamics, mu: Points, t: Time) -> Points:
    """The tokens with sums planned so that they hold its field to the tolerance.

    What a reduction falls back on is planned in its place where it is not worth it; in
    the end exact sums, as where numbers are not known: inside a `jit` or under a
    derivative. Tokens without such a reduction, or with a plan, come back as they are.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import planned
        >>> from meanfield.measures import Chebyshev
        >>> x = jax.random.normal(jax.random.key(0), (20_000, 1))
        >>> mu = Points.uniform(x, reduction=Chebyshev(1e-6))
        >>> softmax = attentions["softmax"]([[1.0]], [[1.0]], [[1.0]])
        >>> plan = planned(softmax, mu, 0.0).reduction
        >>> mu.reduction.counts is None, 8 < plan.counts[0] < 64
        (True, True)
    """
    how = mu.reduction
    if not isinstance(how, AbstractPlanned) or how.is_planned:
        return mu
    if is_tracing() or not all(map(is_concrete, jax.tree.leaves((dynamics, mu)))):
        return exactly(mu)
    planner, plan = _planner(how), None
    if planner.may(dynamics, mu, t):
        plan = planner.plan(dynamics, mu, t)
    if plan is not None:
        return mu.summed(plan)
    return planned(dynamics, mu.summed(how.otherwise), t)


def interpolations(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> tuple[AbstractPlanned, ...]:
    """The ways to interpolate sums of a field that may be worth it, by its shapes.

    Args:
        dynamics: gives the field.
        mu: tokens whose sums wait for a plan.
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
    how = mu.reduction
    if not isinstance(how, AbstractPlanned):
        return ()
    more = interpolations(dynamics, mu.summed(how.otherwise), t)
    return (how, *more) if _planner(how).may(dynamics, mu, t) else more


def unplanned(mu: Points) -> Points:
    """Tokens before they were planned: what moves is to be looked at anew."""
    how = mu.reduction
    return mu.summed(how.unplanned) if isinstance(how, AbstractPlanned) else mu


def roomier(dynamics: AbstractDynamics, mu: Points, t: Time) -> Points | None:
    """Planned tokens with more room, or what the plan falls back on instead.

    `None` if nothing is interpolated.
    """
    how = mu.reduction
    if not isinstance(how, AbstractPlanned) or not how.is_planned:
        return None
    more = _planner(how).roomier(dynamics, mu, t)
    if more is not None:
        return mu.summed(more)
    return planned(dynamics, mu.summed(how.otherwise), t)


def missed(
    freeze: Callable[[Points], AbstractField], mu: Points, field: AbstractField
) -> Convergence | None:
    """What the field of planned tokens misses; `None` if sums are exact.

    Args:
        freeze: gives the field of tokens.
        mu: the tokens.
        field: their field.
    """
    how = mu.reduction
    if not isinstance(how, AbstractPlanned) or not how.is_planned:
        return None
    return _planner(how).missed(how, freeze, mu, field)


def _planner(how: AbstractPlanned) -> Planner[Any]:
    return next(planner for kind, planner in PLANNERS.items() if isinstance(how, kind))
