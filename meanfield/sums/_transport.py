"""Sinkhorn's potentials with sums in cells: from few vectors to all, and finer."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import is_concrete, is_tracing
from meanfield.attention.potentials import converged_potential, half_step
from meanfield.fields import Convergence
from meanfield.measures import Cells, Fenced, Points, Unchecked, exactly, some_of
from meanfield.measures.reductions.cells import (
    PAIRS,
    AbstractLayout,
    chosen,
    extent,
)
from meanfield.scores import Dot, transposed

SAMPLE = 2048  # vectors of either side that potentials are first found of
ROWS = 2  # of sums that are taken at once, at most
ROUGH = 1e-3  # error of sums, and tolerance, where a layout is to be found
SHARE = 0.5  # of the tolerance that sums may miss of a marginal
SUMS = 60  # that a solution takes, about
COMPILED = 20.0  # seconds that programs for cells take to compile
TRIES = 4  # layouts, each with more room, before sums are exact


class Plan(NamedTuple):
    r"""A transport problem between the points of `a` and those of `b`.

    The score is their inner product.
    """

    score: Dot
    a: Points
    b: Points

    @property
    def waits(self) -> bool:
        """Whether sums wait for cells, and numbers are known."""
        how = self.b.reduction
        known = not is_tracing() and all(map(is_concrete, jax.tree.leaves(self)))
        return isinstance(how, Cells) and not how.is_planned and known

    def summed(self, how: Cells) -> "Plan":
        """With sums executed as told."""
        return Plan(self.score, self.a.summed(how), self.b.summed(how))

    @property
    def points(self) -> int:
        """How many there are."""
        return self.a.tokens.n + self.b.tokens.n

    def solved(
        self, tolerance: float | None, limit: int, guess: Array | None = None
    ) -> "Found":
        """The potentials to a tolerance."""
        g, convergence = converged_potential(
            self.score,
            self.b,
            self.a,
            tolerance=tolerance,
            max_iterations=limit,
            guess=guess,
        )
        return Found(half_step(self.score, self.b, g, self.a), g, convergence)


class Found(NamedTuple):
    """What is known of potentials: $f$ of `a`, $g$ of `b`, and how far they are off."""

    f: Float[Array, " m"]
    g: Float[Array, " n"]
    convergence: Convergence

    @property
    def is_finite(self) -> bool:
        """Whether all are numbers: no sums were beyond their bound."""
        numbers = (self.f, self.g, self.convergence.residual)
        return all(bool(jnp.all(jnp.isfinite(part))) for part in numbers)


def in_cells(plan: Plan, tolerance: float | None, limit: int) -> Found | None:
    """Potentials by sums in cells, where these cost less than exact ones.

    Those of some of the points tell which cells are enough for a rough solution, and
    that tells which are for all.
    """
    how = plan.b.reduction
    assert isinstance(how, Cells)
    tolerance = how.tolerance if tolerance is None else tolerance
    found = _from_some(plan, limit)
    rough = _layout(plan, found, ROUGH)
    if rough is None:
        return None
    loosely = plan.summed(Unchecked(how.tolerance, how.otherwise, rough))
    found = loosely.solved(ROUGH, limit, found.g)
    layout = _layout(plan, found, SHARE * how.tolerance)
    for _ in range(TRIES):
        if layout is None:
            break
        fenced = plan.summed(Fenced(how.tolerance, how.otherwise, layout))
        last = fenced.solved(tolerance, limit, found.g)
        if bool(
            jnp.all(jnp.isfinite(last.f)) & jnp.isfinite(last.convergence.residual)
        ):
            return last
        layout = _worth_it(plan, layout.roomier(plan.points, ROWS))
    return None


def unlaid(plan: Plan) -> Plan:
    """With exact sums, if sums still wait for cells."""
    how = plan.b.reduction
    return exactly(plan) if isinstance(how, Cells) and not how.is_planned else plan


def _from_some(plan: Plan, limit: int) -> Found:
    """The potentials of some of the points, and by these those of all."""
    score, a, b = exactly(plan)
    some = Plan(score, some_of(a, SAMPLE), some_of(b, SAMPLE))
    few = some.solved(ROUGH, limit)
    f = half_step(score, some.b, few.g, a)
    return Found(f, half_step(transposed(score), some.a, few.f, b), few.convergence)


def _layout(plan: Plan, found: Found, error: float) -> AbstractLayout | None:
    """Cells for the sums of rows and of columns, if they are worth it."""
    _, a, b = plan
    q, k = a.tokens.x, b.tokens.x
    rows = extent(q, k, b.log_weights + found.g)
    columns = extent(k, q, a.log_weights + found.f)
    layout = chosen(
        [rows, columns],
        tokens=plan.points,
        rows=ROWS,
        error=error,
    )
    return _worth_it(plan, layout)


def _worth_it(plan: Plan, layout: AbstractLayout | None) -> AbstractLayout | None:
    pairs = plan.a.tokens.n * plan.b.tokens.n
    if layout is None:
        return None
    saved = SUMS * (pairs / PAIRS - layout.seconds(plan.points, ROWS))
    return layout if saved > COMPILED else None
