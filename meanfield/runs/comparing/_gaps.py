r"""How far two representations of one flow are apart over time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from meanfield.distances import Distance, conditional, nearest
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

SIGMAS = 3.0  # sampling errors beyond which tokens are no longer drawn from the law
MATCHED = 1e-2  # relative gap that starts with equal moments may come to
RESOLVED = 1e-3  # relative gap of a density on a grid and a Gaussian
SAMPLED = 0.01  # p-value from which tokens pass for draws of a Gaussian
LOST = 1e-6  # mass of a grid worth a word once it has left

Series = Float[np.ndarray, " times"]


@dataclass(frozen=True)
class Path:
    """A side that was run: its measures at the times of its frames, and its ending."""

    side: Side
    times: Series
    measures: tuple[AbstractMeasure, ...]
    outcome: Outcome

    @property
    def home(self) -> AbstractRepresentation[Any]:
        """Its representation."""
        return representations[self.side.measure]

    @property
    def sample_size(self) -> float:
        """How many tokens of equal weight would be as random; infinite of a law."""
        return self.home.sample_size(self.measures[0])

    @property
    def lost(self) -> float:
        """The mass that has left it."""
        return self.home.lost(self.measures[-1])


class Parting(NamedTuple):
    """When two representations part: which gap it is, and what it may be."""

    time: float
    what: str
    gap: float
    allowed: float


@dataclass(frozen=True)
class Gap:
    r"""How far two sides are apart, relative to the second, $N(\beta, S)$ say.

    Attributes:
        pair: their measures.
        times: at which both have a frame.
        mean: $|\alpha - \beta| / (\mathrm{tr}\,S)^{1/2}$.
        covariance: $|\Sigma - S| / |S|$, Frobenius.
        distance: the distance over $(\mathrm{tr}\,S)^{1/2}$.
        distance_error: how far off that may be.
        how: how the distance was had.
        allowed: the gaps in mean and covariance that are no parting, (2, times).
        reasons: why they part, or may.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"A": -1.0, "t": 0.5, "frames": 3}
        >>> (gap,) = runs.compare(
        ...     spec.parse(keys), ["gaussian", "grid"], Path("both")
        ... ).gaps
        >>> gap.pair, bool(gap.covariance.max() < 1e-4), gap.parting
        (('gaussian', 'grid'), True, None)
    """

    pair: tuple[str, str]
    times: Series
    mean: Series
    covariance: Series
    distance: Series
    distance_error: Series
    how: str
    allowed: Float[np.ndarray, "2 times"]
    reasons: tuple[str, ...]

    @property
    def parting(self) -> Parting | None:
        """The first frame at which a gap is larger than allowed, if there is one."""
        for i, t in enumerate(self.times):
            for moment, allowed in zip(
                ("mean", "covariance"), self.allowed, strict=True
            ):
                gap = float(getattr(self, moment)[i])
                if not gap <= allowed[i]:
                    return Parting(float(t), moment, gap, float(allowed[i]))
        return None

    @property
    def verdict(self) -> str:
        """When and why they part, in a line."""
        names = " and ".join(self.pair)
        reasons = "; ".join(self.reasons)
        parting = self.parting
        if parting is None:
            largest = max(float(np.max(self.mean)), float(np.max(self.covariance)))
            return (
                f"{names} stay together up to t = {self.times[-1]:.4g}, "
                f"to {largest:.2g} in mean and covariance; {reasons}."
            )
        return (
            f"{names} part at t = {parting.time:.4g}: gap in the {parting.what} "
            f"{parting.gap:.2g} > {parting.allowed:.2g}; {reasons}."
        )


def gap(first: Path, second: Path) -> Gap:
    """How far two sides are apart at the times of both."""
    times, i, j = np.intersect1d(first.times, second.times, return_indices=True)
    pairs = [(first.measures[a], second.measures[b]) for a, b in zip(i, j, strict=True)]
    moments = [(*moments_of(mu), *moments_of(nu)) for mu, nu in pairs]
    relative = np.array([_relative(*four) for four in moments])
    spreads = np.array([math.sqrt(max(np.trace(four[3]), 0)) for four in moments])
    distance = _distance_of(first, second)
    distances = [distance(mu, nu) for mu, nu in pairs]
    over = lambda values: _ratio(np.array(values), spreads)
    return Gap(
        (first.side.measure, second.side.measure),
        times,
        relative[:, 0],
        relative[:, 1],
        over([d.value for d in distances]),
        over([d.error for d in distances]),
        distances[0].how,
        _allowed(first, second, [four[3] for four in moments]),
        _reasons(first, second, float(np.max(relative[0]))),
    )


def _distance_of(first: Path, second: Path) -> Callable[..., Distance]:
    """The distance of masked attention keeps positions, where both have them."""
    are_masked = first.side.spec.is_masked and second.side.spec.is_masked
    have_positions = all(
        path.home.has_positions(path.measures[0]) for path in (first, second)
    )
    return conditional if are_masked and have_positions else nearest


def _relative(
    alpha: np.ndarray, Sigma: np.ndarray, beta: np.ndarray, S: np.ndarray
) -> tuple[float, float]:
    """Gaps in mean and covariance; infinite from a Dirac to what is none."""
    spread = math.sqrt(max(float(np.trace(S)), 0.0))
    mean = _ratio(float(np.linalg.norm(alpha - beta)), spread)
    gap = _ratio(float(np.linalg.norm(Sigma - S)), float(np.linalg.norm(S)))
    return float(mean), float(gap)


def _ratio(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(a) == 0, 0.0, np.divide(a, b))


def _allowed(
    first: Path, second: Path, covariances: list[np.ndarray]
) -> Float[np.ndarray, "2 times"]:
    r"""The gaps that are no parting.

    The mean of $m$ tokens of $N(\beta, S)$ is off by $(\mathrm{tr}\,S/m)^{1/2}$, root
    mean square, their covariance by $((\mathrm{tr}^2 S + |S|^2)/m)^{1/2}$ (Wishart).
    """
    m = min(first.sample_size, second.sample_size)
    if math.isinf(m):
        return np.full((2, len(covariances)), RESOLVED)
    if not (first.side.from_law and second.side.from_law):
        return np.full((2, len(covariances)), MATCHED)
    ranks = [
        _ratio(float(np.trace(S)), float(np.linalg.norm(S))) ** 2 for S in covariances
    ]
    mean = np.full(len(ranks), 1 / math.sqrt(m))
    return SIGMAS * np.stack([mean, np.sqrt((1 + np.array(ranks)) / m)])


def _reasons(first: Path, second: Path, begun: float) -> tuple[str, ...]:
    """Why two sides part, or may: what each cannot follow; `begun` is the first gap."""
    paths = (first, second)
    reasons = [reason for path in paths for reason in _own_reasons(path, paths)]
    reasons += _of_tokens(first, second, begun)
    return tuple(reasons) or (
        "both follow the flow, the grid to the width of its cells",
    )


def _own_reasons(path: Path, paths: Sequence[Path]) -> list[str]:
    side, outcome, approximation = path.side, path.outcome, path.home.approximation
    reasons = []
    if approximation:
        reasons.append(f"{side.measure}: {approximation}")
    elif side.spec.projected:
        reasons.append(
            "the attention does not keep Gaussians, and the closure is an approximation"
        )
    elif not side.is_exact:
        reasons.append(_of_start(side, paths))
    reasons += side.reasons
    if outcome.status not in (None, Status.FINISHED):
        reasons.append(f"{side.measure}: {outcome.name} at t = {outcome.time:.4g}")
    if outcome.doubt is not None and outcome.doubt.worst > RESOLVED:
        reasons.append(
            f"the {side.measure} may be off by {outcome.doubt.worst:.2g} of the spread"
        )
    if path.lost > LOST:
        reasons.append(f"the {side.measure} has lost {path.lost:.2g} of its mass")
    return reasons


def _of_start(side: Side, paths: Sequence[Path]) -> str:
    """Why a Gaussian that stands for another start parts from it.

    Tokens from a file may be a sample of a Gaussian: the law of a cloud is known.
    """
    known = "and the closure knows two moments of it"
    clouds: list[Any] = [p.measures[0] for p in paths if _has_equal_tokens(p)]
    is_tested = bool(clouds) and not side.from_law
    p = normality(np.asarray(clouds[0].tokens.x, float)) if is_tested else math.nan
    if not p >= SAMPLED:
        tested = "" if math.isnan(p) else f" (Mardia's tests: p = {p:.1g})"
        return f"the start is no Gaussian{tested}, {known}"
    n = clouds[0].tokens.n
    return (
        f"the {n} tokens pass for draws of a Gaussian (Mardia's tests: p = {p:.2g}), "
        f"and begin with a sampling error of the order of n^-1/2 = {n**-0.5:.2g}"
    )


def _has_equal_tokens(path: Path) -> bool:
    """Whether a side begins with tokens, all of one weight."""
    if path.home.begins_with != "tokens":
        return False
    start: Any = path.measures[0]
    return math.isclose(path.sample_size, start.tokens.n, rel_tol=1e-6)


def _of_tokens(first: Path, second: Path, begun: float) -> list[str]:
    n = min(first.sample_size, second.sample_size)
    if math.isinf(n) or not (first.side.from_law and second.side.from_law):
        return []
    return [
        f"{n:.0f} tokens begin with a sampling error of the order of n^-1/2 = "
        f"{n**-0.5:.2g} (here {begun:.2g}), which the flow may magnify"
    ]
