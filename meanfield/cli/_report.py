"""What a run came to, as JSON values and as lines for people."""

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from meanfield.measures import Points
from meanfield.runs import Result, moments_of
from meanfield.spectrum import effective_rank

from ._output import number, print_pairs

LARGEST_PRINTED = 16  # dimension up to which moments are printed
EIGENVALUES = 6  # eigenvalues printed for people


class Timing(NamedTuple):
    """Seconds of computing, and those of tracing and compiling before it."""

    seconds: float
    compile_seconds: float


def as_json(result: Result, timing: Timing) -> dict[str, Any]:
    """The report of a run, as `simulate --json` prints it."""
    spec, outcome, first = result.spec, result.outcome, result.measures[0]
    moments = [moments_of(measure) for measure in result.measures]
    mean = moments[0][0]
    report: dict[str, Any] = {
        "run": None if result.store is None else str(result.store),
        "ending": outcome.name,
        "reason": outcome.reason,
        "t": outcome.time,
        "t_star": outcome.t_star,
        "t_star_error": outcome.t_star_error,
        "measure": spec.measure,
        "attention": spec.attention,
        "n": first.tokens.n if isinstance(first, Points) else None,
        "d": mean.size,
        "dtype": str(mean.dtype),
        "accepted": outcome.accepted,
        "rejected": outcome.rejected,
        "residual": outcome.residual,
        **timing._asdict(),
    }
    if spec.is_family:
        report["endings"] = dict(Counter(o.name for o in result.outcomes))
        report["t_stars"] = [o.t_star for o in result.outcomes]
    report |= {name: value.tolist() for name, value in result.observed.items()}
    if mean.size <= LARGEST_PRINTED:
        means = [mean.tolist() for mean, _ in moments]
        covariances = [covariance.tolist() for _, covariance in moments]
        single = not spec.is_family
        report["mean"] = means[0] if single else means
        report["covariance"] = covariances[0] if single else covariances
    return report


def print_report(result: Result, timing: Timing) -> None:
    """The report of a run, for people."""
    report, outcome = as_json(result, timing), result.outcome
    pairs = {
        "run": report["run"] or "not stored (use --out)",
        "what": _what(report),
        "ending": f"{report['ending']} at t = {number(outcome.time)}: {outcome.reason}",
        "t_star": f"{number(outcome.t_star, 10)} ± {number(outcome.t_star_error, 2)}",
        "endings": ", ".join(
            f"{k} × {v}" for k, v in report.get("endings", {}).items()
        ),
        **_moments(result),
        **_observed(result),
        "steps": f"{report['accepted']} taken, {report['rejected']} refused",
        "residual": f"Sinkhorn |log marginal| ≤ {number(report['residual'], 2)}",
        "time": f"{timing.seconds:.2f} s computing, {timing.compile_seconds:.2f} s "
        "compiling",
    }
    idle = {
        "t_star": math.isnan(outcome.t_star),
        "residual": report["residual"] == 0,
        "endings": "endings" not in report,
    }
    print_pairs({key: text for key, text in pairs.items() if not idle.get(key, False)})


def _what(report: dict[str, Any]) -> str:
    tokens = "" if report["n"] is None else f"{report['n']} tokens, "
    return (
        f"{report['measure']} under {report['attention']}: {tokens}d = {report['d']}, "
        f"{report['dtype']}"
    )


def _observed(result: Result) -> dict[str, str]:
    """Final energies and their rates of change, of the first member of a family."""
    first = "first member: " if result.spec.is_family else ""
    return {
        name: f"{first}{number(float(np.ravel(value)[0]))}"
        for name, value in result.observed.items()
    }


def _moments(result: Result) -> dict[str, str]:
    """The final spectrum, of the first member of a family."""
    covariance = moments_of(result.measures[0])[1].astype(np.float64)
    if not np.all(np.isfinite(covariance)):
        return {"covariance": "no longer finite"}
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]
    shown = ", ".join(f"{value:.4g}" for value in eigenvalues[:EIGENVALUES])
    more = ", …" if len(eigenvalues) > EIGENVALUES else ""
    first = "first member: " if result.spec.is_family else ""
    rank = float(effective_rank(eigenvalues))
    return {
        "covariance": f"{first}eigenvalues {shown}{more}",
        "rank": f"{first}effective {rank:.4g} of {len(eigenvalues)}",
    }
