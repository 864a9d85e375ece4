"""Plans of cells for the sums of a flow, chosen from a bound on the error.

The layout of the cells bounds the relative error of each exponential. The `condition`
of the field turns this into a bound on the error of velocities, relative to the largest
of a few exact velocities. A field without a `condition`, such as that of Sinkhorn
attention, is compared with exact velocities at a few tokens.
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
    CheckedCells,
    Points,
    Survey,
    subsample,
    use_exact_sums,
    worst_tokens,
)
from meanfield.measures.reductions.cells import (
    PAIRS,
    AbstractLayout,
    Findings,
    cheapest_layout,
    choose_layout,
    seconds_in_order,
)

from ._planner import SAFETY_FACTOR, Planner, relative_convergence

WORTH = 0.8  # sums in cells may take at most this fraction of the time of exact sums
MARGIN = 0.2  # largest ratio of initial error to tolerance; errors grow as tokens move
N_PROBES = 16  # tokens, besides extreme ones, whose velocities are computed exactly
# Error of exponentials, relative to the tolerance, if a field has no `condition`.
GUESS = 1 / 32
MIN_ERROR, MAX_ERROR = 1e-12, 0.1  # smallest and largest error bound of exponentials
SAMPLE = 2048  # number of sampled tokens that measure how far scores spread


class CellPlanner(Planner[Cells]):
    """Plans cells for all sums of a field, fine enough for the widest score range."""

    @override
    def is_applicable(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> bool:
        """Whether all sums are exponential in quadratic scores, and cells save time."""
        n, d = mu.tokens.x.shape
        least = cheapest_layout([1.0] * d, 2 * n, d + 1, error=MAX_ERROR)
        if _worthwhile_cells(mu, least) is None:
            return False
        flags = _survey_field(dynamics, mu, t).held
        return bool(flags) and all(flags)

    @override
    def plan(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Cells | None:
        assert isinstance(mu.reduction, Cells)
        findings, tolerance = Findings(), mu.reduction.tolerance
        sample = subsample(mu, SAMPLE).replace_reduction(Survey(findings=findings))
        condition, largest = _scales(dynamics, sample, t)
        n, d = mu.tokens.x.shape
        layout = choose_layout(
            findings.extents(),
            tokens=2 * n,
            rows=d + 1,
            error=min(_weight_tolerance(condition, largest, tolerance), MAX_ERROR),
        )
        return _worthwhile_cells(mu, layout, is_masked=findings.is_masked)

    @override
    def enlarge(self, dynamics: AbstractDynamics, mu: Points, t: Time) -> Cells | None:
        assert isinstance(mu.reduction, Cells)
        assert mu.reduction.layout is not None
        n, d = mu.tokens.x.shape
        layout = mu.reduction.layout.enlarge(2 * n, d + 1)
        is_masked = _survey_field(dynamics, mu, t).is_masked
        return _worthwhile_cells(mu, layout, is_masked=is_masked)

    @override
    def sum_convergence(
        self,
        reduction: Cells,
        freeze: Callable[[Points], AbstractField],
        mu: Points,
        field: AbstractField,
    ) -> Convergence:
        """Error bound by the field's `condition`; if it has none, a measured error."""
        assert reduction.layout is not None
        condition, bound = field.condition, reduction.layout.bound
        if condition is not None:
            exact = _exact_velocities(_extremes(mu), field, mu)
            error = condition * bound / (1 - bound)
            return relative_convergence(error, exact, reduction.tolerance)
        probes = worst_tokens(mu.tokens.x, jnp.zeros_like(mu.log_weights))
        exact = _exact_velocities(probes, field, mu)
        error = SAFETY_FACTOR * jnp.max(jnp.abs(field(mu.tokens)[probes] - exact))
        return relative_convergence(error, exact, reduction.tolerance)


def has_bound(dynamics: AbstractDynamics, mu: AbstractMeasure) -> bool:
    """Whether the field of a measure bounds the error that cells cause in velocities.

    Examples:
        >>> from meanfield import Points, attentions
        >>> from meanfield.flows import has_bound
        >>> one, mu = jnp.eye(1), Points.uniform([[0.0], [1.0]])
        >>> [has_bound(attentions[k](one, one, one), mu) for k in ("l2", "sinkhorn")]
        [True, False]
    """
    condition = lambda mu: dynamics.field(jnp.zeros(()), mu).condition
    return eqx.filter_eval_shape(condition, use_exact_sums(mu)) is not None


def _worthwhile_cells(
    mu: Points, layout: AbstractLayout | None, *, is_masked: bool = False
) -> Cells | None:
    """Sums by cells with this layout, or `None` if exact sums are faster.

    Under a causal mask (`is_masked`) a token attends to half of the others on average.
    """
    assert isinstance(mu.reduction, Cells)
    n, d = mu.tokens.x.shape
    if layout is None or layout.bound < MIN_ERROR:
        return None
    exact_seconds, cell_seconds = n**2 / PAIRS, layout.seconds(2 * n, d + 1)
    if is_masked:
        exact_seconds, cell_seconds = (
            exact_seconds / 2,
            seconds_in_order(layout, n, d + 1),
        )
    if cell_seconds > WORTH * exact_seconds:
        return None
    return CheckedCells(mu.reduction.tolerance, mu.reduction.fallback, layout)


def _weight_tolerance(
    condition: Array | None, largest: Array, tolerance: float
) -> float:
    """The largest allowed relative error of exponentials."""
    if condition is None:
        return GUESS * tolerance
    if condition == 0:  # all tokens are at one place
        return MAX_ERROR
    share = MARGIN * tolerance * float(largest) / float(condition)
    return share / (1 + share)


def _scales(
    dynamics: AbstractDynamics, mu: Points, t: Time
) -> tuple[Float[Array, ""] | None, Float[Array, ""]]:
    """The condition of a field, and its largest velocity."""
    arrays, static = eqx.partition((dynamics, mu), eqx.is_array)
    # JAX caches the structure of arguments. That of `mu` would include `findings`, but
    # that of a list of leaves does not.
    leaves, structure = jax.tree.flatten(arrays)

    @jax.jit
    def scales(leaves: list[Array]) -> tuple[Array | None, Array]:
        dynamics, mu = eqx.combine(jax.tree.unflatten(structure, leaves), static)
        field = dynamics.field(jnp.asarray(t), mu)
        return field.condition, jnp.max(jnp.abs(field(mu.tokens)))

    return scales(leaves)


def _survey_field(dynamics: AbstractDynamics, mu: Points, t: Time) -> Findings:
    """Records which sums a field needs; only shapes are computed."""
    findings = Findings()
    attach_survey = lambda mu: mu.replace_reduction(Survey(findings=findings))
    field = lambda mu: dynamics.field(jnp.asarray(t), attach_survey(mu))
    eqx.filter_eval_shape(lambda mu: field(mu)(mu.tokens), mu)
    return findings


def _extremes(mu: Points) -> Int[Array, " probes"]:
    """Indices of the extreme tokens along each axis, and of others, evenly spaced."""
    x = mu.tokens.x
    sample = np.linspace(0, len(x) - 1, N_PROBES).astype(int)
    ends = jnp.argmin(x, axis=0), jnp.argmax(x, axis=0)
    return jnp.concatenate([*ends, jnp.asarray(sample)])


def _exact_velocities(
    probes: Int[Array, " probes"], field: AbstractField, mu: Points
) -> Float[Array, "probes d"]:
    return use_exact_sums(field)(jax.tree.map(lambda leaf: leaf[probes], mu.tokens))
