"""The report of a run as JSON values."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from meanfield.runs import Result, assumes_identity, moments_of, reason
from meanfield.runs.representations import representations
from meanfield.spectrum import effective_rank

COUNTS = ("n_accepted", "n_rejected", "residual", "sum_error", "is_sum_error_bound")
LARGEST_PRINTED = 16  # largest dimension for which moments are printed
APPROXIMATION = (
    "the flow is projected on Gaussians at every instant; if it is not affine, mean "
    "and covariance differ from those of tokens by O(t²)"
)


class Timing(NamedTuple):
    """Seconds spent on computing, and on tracing and compiling."""

    seconds: float
    compile_seconds: float


def as_json(result: Result, timing: Timing) -> dict[str, Any]:
    """The report of a run as `simulate --json` prints it."""
    spec = result.spec
    moments = [moments_of(measure) for measure in result.measures]
    mean = moments[0][0]
    report: dict[str, Any] = {
        "run": None if result.store is None else str(result.store),
        **_ending(result),
        **_setting(result),
        "n": None,
        "d": mean.size,
        "dtype": str(mean.dtype),
        "reduction": result.sums,
        **{name: getattr(result.outcome, name) for name in COUNTS},
        **timing._asdict(),
    }
    representation = representations[spec.measure]
    members = result.measures, result.outcomes
    report |= representation.report(*members, spec, is_family=spec.is_family)
    if spec.is_family:
        report |= _endings(result)
    report |= {name: value.tolist() for name, value in result.observables.items()}
    if spec.clock is not None:
        report["merges"] = [list(merge) for merge in result.outcome.merges]
    change = result.energy_change
    report["energy_change"] = None if change is None else change.as_json()
    members = _moments(moments)
    return report | (
        members if spec.is_family else {k: v[0] for k, v in members.items()}
    )


def _ending(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "ending": outcome.name,
        "reason": reason(result),
        "t": outcome.time,
        "t_star": outcome.t_star,
        "t_star_error": outcome.t_star_error,
    }


def _endings(result: Result) -> dict[str, Any]:
    """Report entries of a family: counts of endings, and blow-up times."""
    t_stars = [o.t_star for o in result.outcomes]
    times = [t for t in t_stars if t is not None and math.isfinite(t)]
    return {
        "endings": dict(Counter(o.name for o in result.outcomes)),
        "t_stars": t_stars,
        "t_star_range": [min(times), max(times)] if times else None,
    }


def _setting(result: Result) -> dict[str, Any]:
    """Report entries on the measure, the attention or energy, and assumptions."""
    spec = result.spec
    representation = representations[spec.measure]
    approximation = APPROXIMATION if spec.projected else representation.approximation
    return {
        "model": spec.model,
        "text": spec.text,
        "forward": spec.forward,
        "measure": spec.measure,
        "projected": spec.projected,
        "approximation": approximation or None,
        "note": result.note or None,
        "growth": list(result.growth) if spec.is_family else result.growth[0],
        "attention": spec.attention if spec.flow_of is None else None,
        "flow_of": spec.flow_of,
        "assumed": {"A": 1.0} if assumes_identity(spec) else {},
    }


def _moments(moments: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, list]:
    """Moments (in low dimension), eigenvalues and effective rank of each member."""
    means, covariances = zip(*moments, strict=True)
    spectra = [eigenvalues_of(covariance) for covariance in covariances]
    values = {
        "mean": [mean.tolist() for mean in means],
        "covariance": [covariance.tolist() for covariance in covariances],
        "eigenvalues": [spectrum.tolist() for spectrum in spectra],
        "effective_rank": [float(effective_rank(spectrum)) for spectrum in spectra],
    }
    long = () if means[0].size <= LARGEST_PRINTED else ("mean", "covariance")
    return {name: value for name, value in values.items() if name not in long}


def eigenvalues_of(covariance: np.ndarray) -> np.ndarray:
    """Eigenvalues in descending order; NaN if the covariance is not finite."""
    if not np.all(np.isfinite(covariance)):
        return np.full(len(covariance), np.nan)
    return np.linalg.eigvalsh(covariance.astype(np.float64))[::-1]
