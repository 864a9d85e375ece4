"""Which cells the sums of a flow need: a bound on what they miss, known beforehand.

Each exponential is within the layout's bound of its own. How far velocities then are,
at most, the field says (`condition`), over the largest velocity of some tokens, where
sums are taken exactly. Where the field does not say, as behind Sinkhorn's potentials,
velocities are compared with exact ones at those tokens.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.measures import (
    AbstractMeasure,
    Cells,
    Fenced,
    Points,
    Survey,
    exactly,
    some_of,
    suspects,
)
from meanfield.measures.reductions.cells import (
    PAIRS,
    AbstractLayout,
    Findings,
    cheapest,
    chosen,
    seconds_in_order,
)

from ._planner import SEEN, Planner, over_largest

WORTH = 0.8  # of the time of exact sums that cells may take
MARGIN = 0.2  # of the tolerance that a plan may miss: tokens will move
OTHERS = 16  # tokens, beside extreme ones, of which the largest velocity is taken
GUESS = 1 / 32  # of the tolerance, for exponentials behind which no bound is known
LEAST, MOST = 1e-12, 0.1  # errors of weights
SAMPLE = 2048  # tokens on which it is found out what sums would take


class CellPlanner(Planner[Cells]):
    """Cells for all sums of a field, as many as the farthest of its scores need."""

    @override
    def may(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Where sums are all of exponentials of quadratic scores, in few dimensions."""
        n, d = mu.tokens.x.shape
        least = cheapest([1.0] * d, 2 * n, d + 1, error=MOST)
        if _affordable(mu, least) is None:
            return False
        held = _by_shapes(dynamics, mu, t).held
        return bool(held) and all(held)

    @override
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Cells | None:
        assert isinstance(mu.reduction, Cells)
        findings, tolerance = Findings(), mu.reduction.tolerance
        some = some_of(mu, SAMPLE).summed(Survey(findings=findings))
        condition, largest = _scales(dynamics, some, t)
        n, d = mu.tokens.x.shape
        layout = chosen(
            findings.extents(),
            tokens=2 * n,
            rows=d + 1,
            error=min(_allowed(condition, largest, tolerance), MOST),
        )
        return _affordable(mu, layout, in_order=findings.is_masked)

    @override
    def roomier(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Cells | None:
        assert isinstance(mu.reduction, Cells)
        assert mu.reduction.layout is not None
        n, d = mu.tokens.x.shape
        layout = mu.reduction.layout.roomier(2 * n, d + 1)
        in_order = _by_shapes(dynamics, mu, t).is_masked
        return _affordable(mu, layout, in_order=in_order)

    @override
    def missed(
        self,
        how: Cells,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """As the field says, from the bound of exponentials; else as it is seen."""
        assert how.layout is not None
        condition, bound = field.condition, how.layout.bound
        if condition is not None:
            exact = _exact_at(_extremes(mu), field, mu)
            missed = condition * bound / (1 - bound)
            return over_largest(missed, exact, how.tolerance)
        probes = suspects(mu.tokens.x, jnp.zeros_like(mu.log_weights))
        exact = _exact_at(probes, field, mu)
        missed = SEEN * jnp.max(jnp.abs(field(mu.tokens)[probes] - exact))
        return over_largest(missed, exact, how.tolerance)


def has_bound(dynamics: AbstractDynamics, mu: AbstractMeasure) -> bool:
    """Whether the field of a measure says how far velocities are off, at most.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import has_bound
        >>> one, mu = jnp.eye(1), Points.uniform([[0.0], [1.0]])
        >>> [has_bound(attentions[k](one, one, one), mu) for k in ("l2", "sinkhorn")]
        [True, False]
    """
    condition = lambda mu: dynamics.field(jnp.zeros(()), mu).condition
    return eqx.filter_eval_shape(condition, exactly(mu)) is not None


def _affordable(
    mu: Points, layout: AbstractLayout | None, *, in_order: bool = False
) -> Cells | None:
    """Sums in cells as laid out, if they cost less than exact sums.

    In order, a token sees half of the others.
    """
    assert isinstance(mu.reduction, Cells)
    n, d = mu.tokens.x.shape
    if layout is None or layout.bound < LEAST:
        return None
    exact, inside = n**2 / PAIRS, layout.seconds(2 * n, d + 1)
    if in_order:
        exact, inside = exact / 2, seconds_in_order(layout, n, d + 1)
    if inside > WORTH * exact:
        return None
    return Fenced(mu.reduction.tolerance, mu.reduction.otherwise, layout)


def _allowed(condition: Array | None, largest: Array, tolerance: float) -> float:
    """How far off exponentials may be, relative to themselves."""
    if condition is None:
        return GUESS * tolerance
    if condition == 0:  # all tokens are at one place
        return MOST
    share = MARGIN * tolerance * float(largest) / float(condition)
    return share / (1 + share)


def _scales(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> tuple[Float[Array, ""] | None, Float[Array, ""]]:
    """The condition of a field, and its largest velocity."""
    arrays, static = eqx.partition((dynamics, mu), eqx.is_array)
    # Tables of JAX keep the structures of arguments: of a list, which holds no notes.
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def scales(leaves: list[Array]) -> tuple[Array | None, Array]:
        dynamics, mu = eqx.combine(jax.tree.unflatten(structure, leaves), static)
        field = dynamics.field(jnp.asarray(t), mu)
        return field.condition, jnp.max(jnp.abs(field(mu.tokens)))

    return scales(leaves)


def _by_shapes(dynamics: AbstractDynamics, mu: Points, t: Time) -> Findings:
    """Which sums a field takes, as far as shapes say."""
    findings = Findings()
    surveyed = lambda mu: mu.summed(Survey(findings=findings))
    field = lambda mu: dynamics.field(jnp.asarray(t), surveyed(mu))
    eqx.filter_eval_shape(lambda mu: field(mu)(mu.tokens), mu)
    return findings


def _extremes(mu: Points) -> Int[Array, " probes"]:
    """The first and the last tokens along each axis, and some others."""
    x = mu.tokens.x
    others = np.linspace(0, len(x) - 1, OTHERS).astype(int)
    ends = jnp.argmin(x, axis=0), jnp.argmax(x, axis=0)
    return jnp.concatenate([*ends, jnp.asarray(others)])


def _exact_at(
    probes: Int[Array, " probes"], field: AbstractField, mu: Points
) -> Float[Array, "probes d"]:
    return exactly(field)(jax.tree.map(lambda leaf: leaf[probes], mu.tokens))
