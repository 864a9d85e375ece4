"""How sums over tokens are executed, in words."""

import jax

from meanfield.attention import AbstractCoupling, HardSlices
from meanfield.dynamics import AbstractDynamics
from meanfield.measures import (
    AbstractPlanned,
    AbstractReduction,
    Blocked,
    Cells,
    Chebyshev,
    Dense,
)
from meanfield.measures.reductions import Ring


def named(how: AbstractReduction | None) -> str:
    """A way to execute sums, in a word or two."""
    if how is None:
        return "none"
    if isinstance(how, Cells) and how.layout is not None:
        counts = " × ".join(map(str, how.layout.cells))
        return f"cells, {counts} of {how.layout.nodes} nodes an axis"
    if isinstance(how, Chebyshev) and how.counts is not None:
        return f"chebyshev, {' × '.join(map(str, how.counts))} nodes"
    if isinstance(how, AbstractPlanned):
        return named(how.otherwise)
    if isinstance(how, Ring):
        return f"{named(how.alone)}, in a ring of {how.mesh.size}"
    return _exactly(how)


def _exactly(how: AbstractReduction) -> str:
    if isinstance(how, Blocked):
        return "blocked" if how.size is None else f"blocked:{how.size}"
    return "dense" if isinstance(how, Dense) else "separable"


def described(how: AbstractReduction | None, moves: AbstractDynamics) -> str:
    """The same for what moves tokens: nothing is summed where they are only sorted."""
    return "none" if only_sorts(moves) else named(how)


def only_sorts(dynamics: AbstractDynamics) -> bool:
    """Whether all of its attentions match ranks, which sums nothing over pairs."""
    is_coupling = lambda part: isinstance(part, AbstractCoupling)
    parts = filter(is_coupling, jax.tree.leaves(dynamics, is_leaf=is_coupling))
    sorts = [isinstance(coupling, HardSlices) for coupling in parts]
    return bool(sorts) and all(sorts)
