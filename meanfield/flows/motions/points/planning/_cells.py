"""Which cells the sums of a flow need: a bound on what they miss, known beforehand.

Each exponential is within the layout's bound of its own. How far velocities then are,
at most, the field says (`condition`), over the largest velocity of some tokens, where
sums are taken exactly. Where the field does not say, as behind Sinkhorn's potentials,
velocities are compared with exact ones at those tokens.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from typing_extensions import override

from meanfield._typing import Time
from meanfield.dynamics import AbstractDynamics
from meanfield.fields import AbstractField, Convergence
from meanfield.flows._compiled import compiled
from meanfield.measures import (
    AbstractMeasure,
    Cells,
    Fenced,
    Points,
    Survey,
    exactly,
    suspects,
)
from meanfield.measures.reductions.cells import (
    PAIRS,
    ROOM,
    Findings,
    Layout,
    cheapest,
)

from ._planner import SEEN, Planner, over_largest, summed

WORTH = 0.8  # of the time of exact sums that cells may take
MARGIN = 0.2  # of the tolerance that a plan may miss: tokens will move
OTHERS = 16  # tokens, beside extreme ones, of which the largest velocity is taken
GUESS = 1 / 32  # of the tolerance, for exponentials behind which no bound is known
MORE, FINER = 2.0, 8.0  # room and accuracy that are added when a plan is lost
LEAST, MOST = 1e-12, 0.1  # errors of exponentials


class CellPlanner(Planner[Cells]):
    """Cells for all sums of a field, as many as the farthest of its scores need."""

    @override
    def may(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Where sums are all of exponentials of quadratic scores, in few dimensions."""
        d = mu.tokens.x.shape[1]
        if _affordable(mu, [1.0] * d, MOST) is None:
            return False
        findings = Findings()
        survey = Survey(findings=findings)
        look = lambda mu: _velocities(dynamics, summed(mu, survey), t)
        eqx.filter_eval_shape(look, mu)
        return bool(findings.held) and all(findings.held)

    @override
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Cells | None:
        assert isinstance(mu.reduction, Cells)
        spans = _spans(dynamics, mu, t)
        error = _allowed(dynamics, mu, t)
        return None if spans is None else _laid_out(mu, ROOM * spans, error)

    @override
    def roomier(self, how: Cells, mu: Points) -> Cells | None:
        assert how.layout is not None
        spans = MORE * how.layout.reach * np.asarray(how.layout.cells)
        return _laid_out(mu, spans, how.layout.bound / FINER)

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


def _laid_out(mu: Points, spans: Float[np.ndarray, " k"], error: float) -> Cells | None:
    assert isinstance(mu.reduction, Cells)
    layout = _affordable(mu, list(map(float, spans)), error)
    if layout is None:
        return None
    return Fenced(mu.reduction.tolerance, mu.reduction.otherwise, layout)


def _affordable(mu: Points, spans: Sequence[float], error: float) -> Layout | None:
    """The cheapest layout, if it costs less than exact sums."""
    if error < LEAST:
        return None
    n, d = mu.tokens.x.shape
    rows = d + 1
    layout = cheapest(spans, 2 * n, rows, error=min(error, MOST))
    if layout is None or layout.seconds(2 * n, rows) > WORTH * n**2 / PAIRS:
        return None
    return layout


def _spans(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> Float[np.ndarray, " k"] | None:
    """What scores vary by along axes, in all sums; `None` if their axes differ."""
    findings = Findings()
    _velocities(dynamics, summed(mu, Survey(findings=findings)), t)
    spans = findings.spans()
    is_one = len({len(span) for span in spans}) == 1
    return np.max(spans, axis=0) if is_one else None


def _allowed(dynamics: AbstractDynamics, mu: Points, t: Time) -> float:
    """How far off exponentials may be, relative to themselves."""
    assert isinstance(mu.reduction, Cells)
    tolerance, exact = mu.reduction.tolerance, exactly(mu)
    if not has_bound(dynamics, mu):
        return GUESS * tolerance
    condition, largest = map(float, _scales(dynamics, exact, t))
    share = MARGIN * tolerance * largest / condition if condition > 0 else 1.0
    return share / (1 + share)


@compiled
def _scales(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The condition of a field, and its largest velocity at some tokens."""
    field = dynamics.field(jnp.asarray(t), mu)
    assert field.condition is not None
    exact = _exact_at(_extremes(mu), field, mu)
    return field.condition, jnp.max(jnp.abs(exact))


def _velocities(dynamics: AbstractDynamics, mu: Points, t: Time) -> Array:
    return dynamics.field(jnp.asarray(t), mu)(mu.tokens)


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
