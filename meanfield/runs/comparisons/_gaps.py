r"""Gaps over time between two representations of one flow."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from meanfield.distances import Distance, best_distance, conditional_wasserstein
from meanfield.endings import Status
from meanfield.measures import AbstractMeasure
from meanfield.runs.records._endings import Outcome
from meanfield.runs.representations import (
    AbstractRepresentation,
    moments_of,
    representations,
)

from ._normality import normality
from ._sides import Side

SIGMAS = 3.0  # largest allowed gap between tokens and their law, in standard errors
MOMENT_TOLERANCE = 1e-2  # allowed relative gap if one side starts from given tokens
GRID_TOLERANCE = 1e-3  # allowed relative gap if neither side has a sampling error
NORMALITY_LEVEL = 0.01  # smallest p-value at which tokens count as Gaussian draws
OUTFLOW_THRESHOLD = 1e-6  # verdicts mention a grid that has lost more mass than this

Series = Float[np.ndarray, " times"]


@dataclass(frozen=True)
class SideRun:
    """The run of one side: its measure at each frame, and how it ended."""

    side: Side
    times: Series
    measures: tuple[AbstractMeasure, ...]
    outcome: Outcome

    @property
    def representation(self) -> AbstractRepresentation[Any]:
        """The representation of the measure of this side."""
        return representations[self.side.measure]

    @property
    def sample_size(self) -> float:
        """Effective sample size of the start; infinite for a Gaussian or a grid."""
        return self.representation.sample_size(self.measures[0])

    @property
    def outflow(self) -> float:
        """The mass that has left the grid by the last frame; zero without a grid."""
        return self.representation.outflow(self.measures[-1])


class Separation(NamedTuple):
    """The first frame at which a gap exceeds its tolerance.

    Attributes:
        time: the time of the frame.
        moment: the moment that differs, `mean` or `covariance`.
        gap: the relative gap of this moment.
        tolerance: the largest relative gap that counts as agreement.
    """

    time: float
    moment: str
    gap: float
    tolerance: float


@dataclass(frozen=True)
class Gap:
    r"""Gaps between two sides with moments $\alpha, \Sigma$ and $\beta, S$.

    Attributes:
        pair: the names of the two measures.
        times: the times at which both have a frame.
        mean: $|\alpha - \beta| / (\mathrm{tr}\,S)^{1/2}$.
        covariance: $|\Sigma - S| / |S|$, in the Frobenius norm.
        distance: distance between the measures, divided by $(\mathrm{tr}\,S)^{1/2}$.
        distance_error: error estimate of `distance`.
        distance_method: how the distance was computed.
        tolerances: allowed gaps in mean and covariance, of shape (2, times).
        reasons: why the sides differ, or might differ.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"A": -1.0, "t": 0.5, "frames": 3}
        >>> (gap,) = runs.compare(
        ...     spec.parse(keys), ["gaussian", "grid"], Path("both")
        ... ).gaps
        >>> gap.pair, bool(gap.covariance.max() < 1e-4), gap.separation
        (('gaussian', 'grid'), True, None)
    """

    pair: tuple[str, str]
    times: Series
    mean: Series
    covariance: Series
    distance: Series
    distance_error: Series
    distance_method: str
    tolerances: Float[np.ndarray, "2 times"]
    reasons: tuple[str, ...]

    @property
    def separation(self) -> Separation | None:
        """The first frame at which a gap exceeds its tolerance; `None` if none does."""
        for i, t in enumerate(self.times):
            for moment, tolerance in zip(
                ("mean", "covariance"), self.tolerances, strict=True
            ):
                gap = float(getattr(self, moment)[i])
                if not gap <= tolerance[i]:
                    return Separation(float(t), moment, gap, float(tolerance[i]))
        return None

    @property
    def verdict(self) -> str:
        """One line: when the two sides begin to differ, and why."""
        names = " and ".join(self.pair)
        reasons = "; ".join(self.reasons)
        first = self.separation
        if first is None:
            largest = max(float(np.max(self.mean)), float(np.max(self.covariance)))
            return (
                f"{names} agree up to t = {self.times[-1]:.4g}, "
                f"within {largest:.2g} in mean and covariance; {reasons}."
            )
        return (
            f"{names} part at t = {first.time:.4g}: gap in the {first.moment} "
            f"{first.gap:.2g} > {first.tolerance:.2g}; {reasons}."
        )


def gap(first: SideRun, second: SideRun) -> Gap:
    """The gaps between two sides at the times at which both have a frame."""
    times, i, j = np.intersect1d(first.times, second.times, return_indices=True)
    pairs = [(first.measures[a], second.measures[b]) for a, b in zip(i, j, strict=True)]
    moments = [(*moments_of(mu), *moments_of(nu)) for mu, nu in pairs]
    relative = np.array([_relative(*four) for four in moments])
    spreads = np.array([math.sqrt(max(np.trace(four[3]), 0)) for four in moments])
    distance = _distance_of(first, second)
    distances = [distance(mu, nu) for mu, nu in pairs]
    rescale = lambda values: _ratio(np.array(values), spreads)
    return Gap(
        (first.side.measure, second.side.measure),
        times,
        relative[:, 0],
        relative[:, 1],
        rescale([d.value for d in distances]),
        rescale([d.error for d in distances]),
        distances[0].method,
        _tolerances(first, second, [four[3] for four in moments]),
        _reasons(first, second, float(np.max(relative[0]))),
    )


def _distance_of(first: SideRun, second: SideRun) -> Callable[..., Distance]:
    """The distance that compares two sides.

    If both have masks and positions, transport moves no mass between positions.
    """
    paths = first, second
    are_masked = all(path.side.spec.is_masked for path in paths)
    have_positions = all(p.representation.has_positions(p.measures[0]) for p in paths)
    return conditional_wasserstein if are_masked and have_positions else best_distance


def _relative(
    alpha: np.ndarray, Sigma: np.ndarray, beta: np.ndarray, S: np.ndarray
) -> tuple[float, float]:
    """Relative gaps in mean and covariance; infinite if they differ and `S` is zero."""
    spread = math.sqrt(max(float(np.trace(S)), 0.0))
    mean = _ratio(float(np.linalg.norm(alpha - beta)), spread)
    gap = _ratio(float(np.linalg.norm(Sigma - S)), float(np.linalg.norm(S)))
    return float(mean), float(gap)


def _ratio(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(a) == 0, 0.0, np.divide(a, b))


def _tolerances(
    first: SideRun, second: SideRun, covariances: list[np.ndarray]
) -> Float[np.ndarray, "2 times"]:
    r"""Allowed gaps in mean and covariance at each time.

    The mean of $m$ draws from $N(\beta, S)$ has the root mean square error
    $(\mathrm{tr}\,S/m)^{1/2}$. The error of their covariance is
    $((\mathrm{tr}^2 S + |S|^2)/m)^{1/2}$ (Wishart).
    """
    m = min(first.sample_size, second.sample_size)
    if math.isinf(m):
        return np.full((2, len(covariances)), GRID_TOLERANCE)
    if not (first.side.has_law_start and second.side.has_law_start):
        return np.full((2, len(covariances)), MOMENT_TOLERANCE)
    ranks = [
        _ratio(float(np.trace(S)), float(np.linalg.norm(S))) ** 2 for S in covariances
    ]
    mean = np.full(len(ranks), 1 / math.sqrt(m))
    return SIGMAS * np.stack([mean, np.sqrt((1 + np.array(ranks)) / m)])


def _reasons(first: SideRun, second: SideRun, initial_gap: float) -> tuple[str, ...]:
    """Reasons why two sides can differ; `initial_gap` is the gap at the first frame."""
    paths = (first, second)
    reasons = [reason for path in paths for reason in _side_reasons(path, paths)]
    reasons += _sampling_reasons(first, second, initial_gap)
    return tuple(reasons) or (
        "both follow the flow, the grid up to the width of its cells",
    )


def _side_reasons(path: SideRun, paths: Sequence[SideRun]) -> list[str]:
    side, outcome, reasons = path.side, path.outcome, []
    approximation = path.representation.approximation
    if approximation:
        reasons.append(f"{side.measure}: {approximation}")
    elif side.spec.projected:
        reasons.append(
            "the attention does not keep Gaussians Gaussian, so the closure is an "
            "approximation"
        )
    elif not side.is_exact:
        reasons.append(_start_reason(side, paths))
    reasons += side.reasons
    if outcome.status not in (None, Status.FINISHED):
        reasons.append(f"{side.measure}: {outcome.name} at t = {outcome.time:.4g}")
    error = 0.0 if outcome.error_estimate is None else outcome.error_estimate.worst
    if error > GRID_TOLERANCE:
        reasons.append(f"the {side.measure} may be off by {error:.2g} of the spread")
    if path.outflow > OUTFLOW_THRESHOLD:
        reasons.append(f"the {side.measure} has lost {path.outflow:.2g} of its mass")
    return reasons


def _start_reason(side: Side, paths: Sequence[SideRun]) -> str:
    """Why a Gaussian flow differs from a flow whose start has the same moments.

    The law of a cloud is known; tokens from a file are tested for normality, since they
    may be draws from a Gaussian.
    """
    closure_note = "and the closure has only its first two moments"
    clouds: list[Any] = [p.measures[0] for p in paths if _has_equal_tokens(p)]
    is_tested = bool(clouds) and not side.has_law_start
    p = normality(np.asarray(clouds[0].tokens.x, float)) if is_tested else math.nan
    if not p >= NORMALITY_LEVEL:
        test_note = "" if math.isnan(p) else f" (Mardia's tests: p = {p:.1g})"
        return f"the start is not Gaussian{test_note}, {closure_note}"
    n = clouds[0].tokens.n
    return (
        f"the {n} tokens pass as draws from a Gaussian (Mardia's tests: p = {p:.2g}), "
        f"and begin with a sampling error of the order of n^-1/2 = {n**-0.5:.2g}"
    )


def _has_equal_tokens(path: SideRun) -> bool:
    """Whether a side starts from tokens of equal weight."""
    if path.representation.start_type != "tokens":
        return False
    start: Any = path.measures[0]
    return math.isclose(path.sample_size, start.tokens.n, rel_tol=1e-6)


def _sampling_reasons(first: SideRun, second: SideRun, initial_gap: float) -> list[str]:
    n = min(first.sample_size, second.sample_size)
    if math.isinf(n) or not (first.side.has_law_start and second.side.has_law_start):
        return []
    return [
        f"{n:.0f} tokens begin with a sampling error of the order of n^-1/2 = "
        f"{n**-0.5:.2g} (here {initial_gap:.2g}), which the flow may magnify"
    ]
