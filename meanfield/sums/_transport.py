"""Sinkhorn potentials with sums over cells, whose layout comes from a sample."""

import warnings
from itertools import starmap
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from meanfield._array import is_concrete, is_tracing
from meanfield.attention.potentials import half_step, solve_potential
from meanfield.fields import Convergence
from meanfield.measures import (
    Cells,
    CheckedCells,
    Points,
    UncheckedCells,
    subsample,
    use_exact_sums,
)
from meanfield.measures.reductions.cells import (
    PAIRS,
    AbstractLayout,
    Extent,
    choose_layout,
    extent,
    refined_extents,
)
from meanfield.scores import Dot, transpose

SAMPLE = 2048  # number of vectors sampled on each side for the first potentials
ROWS = 2  # largest number of sums that are computed together
ROUGH = 1e-3  # error of sums and tolerance of potentials until a layout is found
SHARE = 0.5  # share of the tolerance that the error of sums may use
SUMS = 60  # typical number of sums in a solution
COMPILE_SECONDS = 20.0  # time to compile the programs for cells, in seconds
LONG = 60.0  # if exact sums take more seconds than this, a warning is issued
TRIES = 4  # number of layouts to try, each with new potentials, before exact sums


class TransportProblem(NamedTuple):
    r"""A transport problem between the points `a` and the points `b`.

    The score is the inner product of two points.
    """

    score: Dot
    a: Points
    b: Points

    @property
    def needs_layout(self) -> bool:
        """Whether sums use cells without a layout, and all values are concrete."""
        how = self.b.reduction
        is_known = not is_tracing() and all(map(is_concrete, jax.tree.leaves(self)))
        return isinstance(how, Cells) and not how.is_planned and is_known

    def with_sums(self, how: Cells) -> "TransportProblem":
        """The problem with its sums computed over the cells `how`."""
        return TransportProblem(
            self.score, self.a.replace_reduction(how), self.b.replace_reduction(how)
        )

    @property
    def points(self) -> int:
        """Number of points on both sides together."""
        return self.a.tokens.n + self.b.tokens.n

    @property
    def pairs(self) -> int:
        """Number of pairs of points, one from each side."""
        return self.a.tokens.n * self.b.tokens.n

    def solve(
        self, tolerance: float | None, limit: int, guess: Array | None = None
    ) -> "Solution":
        """The potentials of both sides, with a residual of at most `tolerance`."""
        g, convergence = solve_potential(
            self.score,
            self.b,
            self.a,
            tolerance=tolerance,
            max_iterations=limit,
            guess=guess,
        )
        return self.complete(g, convergence)

    def complete(self, g: Float[Array, " n"], convergence: Convergence) -> "Solution":
        """The solution with the potential $g$, from which $f$ is computed."""
        return Solution(half_step(self.score, self.b, g, self.a), g, convergence)


class Solution(NamedTuple):
    """The potentials $f$ of the points `a` and $g$ of the points `b`."""

    f: Float[Array, " m"]
    g: Float[Array, " n"]
    convergence: Convergence

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite, that is, all sums met their error bound."""
        numbers = self.f, self.convergence.residual
        return all(bool(jnp.all(jnp.isfinite(part))) for part in numbers)


def solve_in_cells(
    problem: TransportProblem, tolerance: float | None, limit: int
) -> Solution | None:
    """Potentials from sums over cells; `None` if cells are slower or miss their bound.

    The potentials of a sample of the points determine cells for a rough solution. The
    rough solution determines the cells for the final solution.
    """
    how = problem.b.reduction
    assert isinstance(how, Cells)
    tolerance = how.tolerance if tolerance is None else tolerance
    solution = _solve_sample(problem, limit)
    layout = _layout(problem, list(starmap(extent, _sums(problem, solution))), ROUGH)
    if layout is None:
        return None
    loose = problem.with_sums(UncheckedCells(how.tolerance, how.fallback, layout))
    solution = loose.solve(ROUGH, limit, solution.g)
    for _ in range(TRIES):
        extents = refined_extents(_sums(problem, solution), error=ROUGH)
        layout = _layout(problem, extents, SHARE * how.tolerance)
        if layout is None:
            break
        strict = problem.with_sums(CheckedCells(how.tolerance, how.fallback, layout))
        last = strict.solve(tolerance, limit, solution.g)
        if last.is_finite:
            return last
        loose = problem.with_sums(UncheckedCells(how.tolerance, how.fallback, layout))
        solution = loose.complete(last.g, last.convergence)
    return None


def fall_back_to_exact(problem: TransportProblem) -> TransportProblem:
    """Replaces cells without a layout by exact sums; warns if exact sums are slow."""
    how = problem.b.reduction
    if not isinstance(how, Cells) or how.is_planned:
        return problem
    seconds = SUMS * problem.pairs / PAIRS
    if seconds > LONG:
        warnings.warn(
            f"no cells compute these sums to {how.tolerance:g}, so exact sums over"
            f" {problem.pairs:.0e} pairs are used, which takes about"
            f" {seconds / 60:.0f} minutes; use fewer points, a larger tolerance or a"
            " larger bandwidth",
            stacklevel=3,
        )
    return use_exact_sums(problem)


def _solve_sample(problem: TransportProblem, limit: int) -> Solution:
    """Potentials of all points, extended from the potentials of a sample."""
    score, a, b = use_exact_sums(problem)
    sample = TransportProblem(score, subsample(a, SAMPLE), subsample(b, SAMPLE))
    coarse = sample.solve(ROUGH, limit)
    f = half_step(score, sample.b, coarse.g, a)
    return Solution(
        f, half_step(transpose(score), sample.a, coarse.f, b), coarse.convergence
    )


def _sums(
    problem: TransportProblem, solution: Solution
) -> list[tuple[Array, Array, Array]]:
    """Queries, keys and log weights, for the sums over rows and over columns."""
    _, a, b = problem
    q, k = a.tokens.x, b.tokens.x
    return [(q, k, b.log_weights + solution.g), (k, q, a.log_weights + solution.f)]


def _layout(
    problem: TransportProblem, extents: list[Extent], error: float
) -> AbstractLayout | None:
    """A layout of cells for sums with these extents; `None` if it saves no time."""
    layout = choose_layout(extents, tokens=problem.points, rows=ROWS, error=error)
    return _worthwhile_layout(problem, layout)


def _worthwhile_layout(
    problem: TransportProblem, layout: AbstractLayout | None
) -> AbstractLayout | None:
    if layout is None:
        return None
    saving = SUMS * (problem.pairs / PAIRS - layout.seconds(problem.points, ROWS))
    return layout if saving > COMPILE_SECONDS else None
