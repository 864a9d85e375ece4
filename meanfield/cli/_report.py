"""What a run came to, as JSON values and as lines for people."""

from collections import Counter
from typing import Any

import numpy as np

from meanfield.measures import AbstractMeasure, Gaussian, Points
from meanfield.runs import Result
from meanfield.spectrum import effective_rank

from ._console import number, print_pairs
from ._session import compile_seconds

LARGEST_PRINTED = 16  # dimension up to which moments are printed


def as_json(result: Result) -> dict[str, Any]:
    """The report of a run, as `simulate --json` prints it."""
    spec, outcome, first = result.spec, result.outcome, result.measures[0]
    n, d = _sizes(first)
    compiling = compile_seconds()
    report: dict[str, Any] = {
        "run": None if result.store is None else str(result.store),
        "ending": outcome.name,
        "reason": outcome.reason,
        "t": outcome.time,
        "t_star": outcome.t_star,
        "t_star_error": outcome.t_star_error,
        "measure": spec.measure,
        "attention": spec.attention,
        "n": n,
        "d": d,
        "dtype": str(first.mean.dtype),
        "accepted": outcome.accepted,
        "rejected": outcome.rejected,
        "residual": outcome.residual,
        "seconds": max(result.seconds - compiling, 0.0),
        "compile_seconds": compiling,
    }
    if d <= LARGEST_PRINTED:
        moments = [(m.mean, m.covariance) for m in result.measures]
        means = [np.asarray(mean).tolist() for mean, _ in moments]
        covariances = [np.asarray(covariance).tolist() for _, covariance in moments]
        single = spec.draws is None
        report["mean"] = means[0] if single else means
        report["covariance"] = covariances[0] if single else covariances
    if spec.draws is not None:
        report["endings"] = dict(Counter(o.name for o in result.outcomes))
        report["t_stars"] = [o.t_star for o in result.outcomes]
    return report


def print_report(result: Result) -> None:
    """The report of a run, for people."""
    report = as_json(result)
    n = f"{report['n']} tokens, " if report["n"] is not None else ""
    eigenvalues = np.linalg.eigvalsh(_finite(result.measures[0]))[::-1]
    shown = ", ".join(f"{value:.4g}" for value in eigenvalues[:6])
    pairs = {
        "run": report["run"] or "not stored (use --out)",
        "what": f"{report['measure']} under {report['attention']}: {n}d = "
        f"{report['d']}, {report['dtype']}",
        "ending": f"{report['ending']} at t = {number(report['t'])} ({report['reason']})",
        "t_star": f"{number(report['t_star'], 10)} ± {number(report['t_star_error'], 2)}",
        "covariance": f"eigenvalues {shown}{' …' if len(eigenvalues) > 6 else ''}",
        "rank": f"effective {float(effective_rank(eigenvalues)):.4g}",
        "steps": f"{report['accepted']} taken, {report['rejected']} refused",
        "residual": f"Sinkhorn |log marginal| ≤ {number(report['residual'], 2)}",
        "endings": report.get("endings"),
        "time": f"{report['seconds']:.2f} s, and {report['compile_seconds']:.2f} s to "
        "compile",
    }
    print_pairs({key: text for key, text in pairs.items() if _worth(key, report)})


def _worth(key: str, report: dict[str, Any]) -> bool:
    if key == "t_star":
        return report["t_star"] == report["t_star"]  # not NaN
    if key == "residual":
        return report["residual"] > 0
    return key != "endings" or "endings" in report


def _sizes(measure: AbstractMeasure) -> tuple[int | None, int]:
    if isinstance(measure, Points):
        n, d = measure.tokens.x.shape
        return n, d
    assert isinstance(measure, Gaussian)
    return None, measure.mean.shape[0]


def _finite(measure: Any) -> np.ndarray:  # noqa: ANN401
    return np.nan_to_num(np.asarray(measure.covariance))
