"""Sinkhorn's potentials with sums in cells: from few vectors to all, and finer."""

import warnings
from itertools import starmap
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
    Extent,
    chosen,
    extent,
    of_all,
)
from meanfield.scores import Dot, transposed

SAMPLE = 2048  # vectors of either side that potentials are first found of
ROWS = 2  # of sums that are taken at once, at most
ROUGH = 1e-3  # error of sums, and tolerance, where a layout is to be found
SHARE = 0.5  # of the tolerance that sums may miss of a marginal
SUMS = 60  # that a solution takes, about
COMPILED = 20.0  # seconds that programs for cells take to compile
LONG = 60.0  # seconds of exact sums that one is warned of
TRIES = 4  # layouts, each for the potentials of the last, before sums are exact


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

    @property
    def pairs(self) -> int:
        """Terms of the sums of all rows."""
        return self.a.tokens.n * self.b.tokens.n

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
        return self.at(g, convergence)

    def at(self, g: Float[Array, " n"], convergence: Convergence) -> "Found":
        """With the potential of the other side."""
        return Found(half_step(self.score, self.b, g, self.a), g, convergence)


class Found(NamedTuple):
    """What is known of potentials: $f$ of `a`, $g$ of `b`, and how far they are off."""

    f: Float[Array, " m"]
    g: Float[Array, " n"]
    convergence: Convergence

    @property
    def is_finite(self) -> bool:
        """Whether all are numbers: no sums were beyond their bound."""
        numbers = self.f, self.convergence.residual
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
    layout = _layout(plan, list(starmap(extent, _sums(plan, found))), ROUGH)
    if layout is None:
        return None
    loosely = plan.summed(Unchecked(how.tolerance, how.otherwise, layout))
    found = loosely.solved(ROUGH, limit, found.g)
    for _ in range(TRIES):
        extents = of_all(_sums(plan, found), error=ROUGH)
        layout = _layout(plan, extents, SHARE * how.tolerance)
        if layout is None:
            break
        fenced = plan.summed(Fenced(how.tolerance, how.otherwise, layout))
        last = fenced.solved(tolerance, limit, found.g)
        if last.is_finite:
            return last
        loosely = plan.summed(Unchecked(how.tolerance, how.otherwise, layout))
        found = loosely.at(last.g, last.convergence)
    return None


def unlaid(plan: Plan) -> Plan:
    """With exact sums, if sums still wait for cells; who waits for hours is told."""
    how = plan.b.reduction
    if not isinstance(how, Cells) or how.is_planned:
        return plan
    seconds = SUMS * plan.pairs / PAIRS
    if seconds > LONG:
        warnings.warn(
            f"no cells hold these sums to {how.tolerance:g}: exact ones, of"
            f" {plan.pairs:.0e} pairs each, take some {seconds / 60:.0f} minutes; fewer"
            " points, a larger tolerance or a larger bandwidth take less",
            stacklevel=3,
        )
    return exactly(plan)


def _from_some(plan: Plan, limit: int) -> Found:
    """The potentials of some of the points, and by these those of all."""
    score, a, b = exactly(plan)
    some = Plan(score, some_of(a, SAMPLE), some_of(b, SAMPLE))
    few = some.solved(ROUGH, limit)
    f = half_step(score, some.b, few.g, a)
    return Found(f, half_step(transposed(score), some.a, few.f, b), few.convergence)


def _sums(plan: Plan, found: Found) -> list[tuple[Array, Array, Array]]:
    """Queries, keys and logarithms of weights of the sums of rows and of columns."""
    _, a, b = plan
    q, k = a.tokens.x, b.tokens.x
    return [(q, k, b.log_weights + found.g), (k, q, a.log_weights + found.f)]


def _layout(plan: Plan, extents: list[Extent], error: float) -> AbstractLayout | None:
    """Cells for sums that reach so far, if they are worth it."""
    layout = chosen(extents, tokens=plan.points, rows=ROWS, error=error)
    return _worth_it(plan, layout)


def _worth_it(plan: Plan, layout: AbstractLayout | None) -> AbstractLayout | None:
    if layout is None:
        return None
    saved = SUMS * (plan.pairs / PAIRS - layout.seconds(plan.points, ROWS))
    return layout if saved > COMPILED else None
