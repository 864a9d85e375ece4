"""The report of a run as JSON values."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from meanfield.runs import Result, assumes_identity, moments_of, reason
from meanfield.runs.representations import representations
from meanfield.spectrum import effective_rank

LARGEST_PRINTED = 16  # dimension up to which moments are printed
APPROXIMATION = (
    "the flow is projected on Gaussians at every instant; where it is not affine, mean "
    "and covariance part from the tokens' like t²"
)


class Timing(NamedTuple):
    """Seconds of computing, and those of tracing and compiling before it."""

    seconds: float
    compile_seconds: float


def as_json(result: Result, timing: Timing) -> dict[str, Any]:
    """The report of a run, as `simulate --json` prints it."""
    spec, outcome = result.spec, result.outcome
    moments = [moments_of(measure) for measure in result.measures]
    mean = moments[0][0]
    home = representations[spec.measure]
    approximation = APPROXIMATION if spec.projected else home.approximation
    report: dict[str, Any] = {
        "run": None if result.store is None else str(result.store),
        **_ending(result),
        "model": spec.model,
        "text": spec.text,
        "forward": spec.forward,
        "measure": spec.measure,
        "projected": spec.projected,
        "approximation": approximation or None,
        "caveat": result.caveat or None,
        "growth": list(result.growth) if spec.is_family else result.growth[0],
        "attention": spec.attention if spec.flow_of is None else None,
        "flow_of": spec.flow_of,
        "assumed": {"A": 1.0} if assumes_identity(spec) else {},
        "n": None,
        "d": mean.size,
        "dtype": str(mean.dtype),
        "reduction": result.sums,
        "accepted": outcome.accepted,
        "rejected": outcome.rejected,
        "residual": outcome.residual,
        "missed": outcome.missed,
        "missed_at_most": outcome.missed_at_most,
        **timing._asdict(),
    }
    report |= home.report(result.measures, result.outcomes, spec)
    if spec.is_family:
        report["endings"] = dict(Counter(o.name for o in result.outcomes))
        report["t_stars"] = [o.t_star for o in result.outcomes]
        report["t_star_range"] = t_star_range(report["t_stars"])
    report |= {name: value.tolist() for name, value in result.observed.items()}
    report["fall"] = None if result.fall is None else result.fall.as_json()
    if mean.size <= LARGEST_PRINTED:
        report |= _moments_as_json(moments, is_family=spec.is_family)
    return report | _spectra_as_json(moments, is_family=spec.is_family)


def _moments_as_json(
    moments: list[tuple[np.ndarray, np.ndarray]], *, is_family: bool
) -> dict[str, Any]:
    """Mean and covariance: a list of them for a family, else those of the one run."""
    values = {
        name: [member[place].tolist() for member in moments]
        for place, name in enumerate(("mean", "covariance"))
    }
    return values if is_family else {name: v[0] for name, v in values.items()}


def _spectra_as_json(
    moments: list[tuple[np.ndarray, np.ndarray]], *, is_family: bool
) -> dict[str, Any]:
    """Eigenvalues of the covariance, falling, and their effective rank."""
    spectra = [eigenvalues_of(covariance) for _, covariance in moments]
    values = {
        "eigenvalues": [spectrum.tolist() for spectrum in spectra],
        "effective_rank": [float(effective_rank(spectrum)) for spectrum in spectra],
    }
    return values if is_family else {name: v[0] for name, v in values.items()}


def eigenvalues_of(covariance: np.ndarray) -> np.ndarray:
    """From the largest on; not numbers, of a covariance that is not finite."""
    if not np.all(np.isfinite(covariance)):
        return np.full(len(covariance), np.nan)
    return np.linalg.eigvalsh(covariance.astype(np.float64))[::-1]


def _ending(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "ending": outcome.name,
        "reason": reason(result),
        "t": outcome.time,
        "t_star": outcome.t_star,
        "t_star_error": outcome.t_star_error,
    }


def t_star_range(t_stars: Sequence[float | None]) -> list[float] | None:
    """The first and the last blow-up time of several flows, if any blew up."""
    known = [t for t in t_stars if t is not None and math.isfinite(t)]
    return [min(known), max(known)] if known else None
