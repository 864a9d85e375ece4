"""The report of a run as lines of text."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from meanfield._counting import count_phrase
from meanfield.cli.terminal._output import number, print_pairs
from meanfield.frame_numbers import variable_name
from meanfield.runs import Result, moments_of
from meanfield.spectrum import effective_rank
from meanfield.storage import RunStore

from ._pictures import frames_hint
from ._report_values import Timing as Timing
from ._report_values import as_json, eigenvalues_of
from ._texts import ASSUMPTION, SPLIT, text_label

EIGENVALUES = 6  # number of eigenvalues printed
LAST_MERGES = 5  # number of times of merges printed
COARSE = 1e-3  # smallest relative tolerance that the report warns about


def print_report(result: Result, timing: Timing) -> None:
    """Prints the report of a run, without empty lines."""
    report, change = as_json(result, timing), result.energy_change
    residual = f"{_RESIDUALS[report['projected']]} ≤ {number(report['residual'], 2)}"
    steps = f"{report['n_accepted']} accepted, {report['n_rejected']} rejected"
    steps += _tolerance_warning(result.spec.rtol)
    splitting = SPLIT * result.spec.splits_scores
    seconds, compile_seconds = (f"{value:.2f} s" for value in timing)
    pairs = {
        "run": report["run"] or "not stored (use --out)",
        "setup": _describe_motion(result, report),
        "scores": ASSUMPTION if report["assumed"] else splitting,
        "approximation": report["approximation"],
        "note": result.note,
        "ending": _describe_ending(result, report),
        "t_star": _describe_t_star(report),
        "merges": _merges(result),
        "frames": _frames_hint(result),
        **_mass(report),
        "error_estimate": describe_error_estimate(report),
        **_moments(result, report["n"]),
        **_energies(result),
        "energy_change": "" if change is None else change.text,
        "sums": _sums(report),
        "steps": "" if report["forward"] else steps,
        "residual": residual if report["residual"] else "",
        "time": f"{seconds} computing, {compile_seconds} compiling",
    }
    print_pairs({key: text for key, text in pairs.items() if text})


def _merges(result: Result) -> str:
    """The number of merges of tokens, with the last times; empty if there are none."""
    times = [time for time, *_ in result.outcome.merges]
    if not times:
        return ""
    last = ", ".join(number(time, 10) for time in times[-LAST_MERGES:])
    prefix = "the last " if len(times) > LAST_MERGES else ""
    return f"{len(times)}, {prefix}at t = {last}"


def _frames_hint(result: Result) -> str:
    """Advice to store more frames of a run that blew up; empty if there are enough."""
    if result.store is None:
        return ""
    n_frames = RunStore.open(result.store).frames
    return frames_hint(result.spec, n_frames, result.outcome.t_star)


def _describe_ending(result: Result, report: dict[str, Any]) -> str:
    """Ending of the run; for a family, the number of members with each ending."""
    outcomes, name = result.outcomes, report["ending"]
    if len(report.get("endings", {})) == 1:
        name = f"{name} × {len(outcomes)}"
    if len(report.get("endings", {})) > 1:  # the reason names all these endings
        return f"{report['reason']}; known up to t = {number(result.outcome.time)}"
    return f"{name} at t = {number(result.outcome.time)}: {report['reason']}"


def _describe_t_star(report: dict[str, Any]) -> str:
    """Time of the blow-up with its error; for a family, the first and last time."""
    time, error = (report[key] for key in ("t_star", "t_star_error"))
    if math.isnan(time):
        return ""
    text = f"{number(time, 10)} ± {number(error, 2)}"
    ends = report.get("t_star_range")
    if ends is None or ends[0] == ends[1]:
        return text
    return f"{text} is the first, {number(ends[1], 10)} the last"


def _member_prefix(result: Result) -> str:
    """Text before numbers of a family's first member; empty for a single flow."""
    if not result.spec.is_family:
        return ""
    outcome = result.outcomes[0]
    return f"first member ({outcome.name} at t = {number(outcome.time)}): "


def _tolerance_warning(rtol: float | None) -> str:
    """Warning about a coarse tolerance of steps; empty for a fine tolerance."""
    if rtol is None or rtol < COARSE:
        return ""
    return (
        f", each to {rtol:g}; the flow may amplify this error: compare with "
        f"--rtol {rtol / 10:g}"
    )


def _sums(report: dict[str, Any]) -> str:
    """How sums over tokens are evaluated, with the error of interpolated sums."""
    text = "" if report["reduction"] == "none" else report["reduction"]
    if not text or report["sum_error"] == 0:
        return text
    size = f"{number(report['sum_error'], 2)} of the largest"
    if report["is_sum_error_bound"]:
        return f"{text}; velocities are off by at most {size}"
    return f"{text}; velocities are off by some {size}, as compared with exact ones"


def _describe_motion(result: Result, report: dict[str, Any]) -> str:
    """The measure with its sizes, and the attention or energy that moves it."""
    spec = result.spec
    size = "" if report["n"] is None else count_phrase(report["n"], "token")
    if "cells" in report:
        positions, box = report.get("positions"), report.get("box")
        suffix = "" if positions is None else f" at each of {positions} positions"
        cells = " × ".join(map(str, report["cells"]))
        size = f"{cells} cells{suffix}" + (f", box {box}" if box else "")
    if spec.text is not None:
        size += f" of {text_label(spec.text)}"
    network = "" if spec.model is None else f" of {Path(spec.model).name}"
    motion = f"{spec.measure_label} under {spec.attention}{network}"
    motion += " to a context" if spec.context else ""
    if spec.flow_of is not None:
        motion = f"{spec.measure_label} down {spec.mover}"
    if spec.forward:
        motion = f"forward pass{network}"
    sizes = [size, f"d = {report['d']}", report["dtype"]]
    return f"{motion}: {', '.join(filter(None, sizes))}"


def describe_error_estimate(report: dict[str, Any]) -> str:
    """Error estimate of a density, or the largest one of a family; empty if unknown."""
    record = report.get("error_estimate")
    is_family = isinstance(record, list)
    members = record if is_family else [record]
    estimates = [(i, [*part.values()]) for i, part in enumerate(members) if part]
    if not estimates:
        return ""
    index, worst = max(estimates, key=lambda pair: max(pair[1]))
    covariance, mean, box, cells = map(_share, worst)
    owner = f"member {index}, largest error estimate: " if is_family else ""
    return (
        f"{owner}the covariance may be off by {covariance} (the box {box}, its cells "
        f"{cells}), the mean by {mean} of the spread"
    )


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if math.isfinite(value) else "any amount"


def _mass(report: dict[str, Any]) -> dict[str, str]:
    """Mass and outflow of a grid; for a family, only those of the first member."""
    if "mass" not in report:
        return {}
    mass, outflow = (np.ravel(report[key])[0] for key in ("mass", "outflow"))
    return {"mass": f"{mass:.10g} on the grid, {outflow:.3g} left it"}


_RESIDUALS = {
    True: "quadrature of the dissipation rates, relative,",
    False: "Sinkhorn |log marginal|",
}
_RATES = {"dissipation": "dE/dt = ", "steepest": "dE/dt of the gradient flow = "}


def _energies(result: Result) -> dict[str, str]:
    """Final energies, rates and numbers of tokens; of a family, the first member's."""
    prefix = _member_prefix(result)
    texts = {variable_name(text): text for text in result.spec.recorded_numbers}
    rows = {}
    for name, value in result.observables.items():
        rate = _RATES.get(name.partition("_")[0], "")
        rows[texts.get(name, name)] = prefix + rate + number(float(np.ravel(value)[0]))
    return rows


def _moments(result: Result, n: int | None) -> dict[str, str]:
    """Final mean and spectrum of `n` tokens; for a family, only of the first member."""
    moments = moments_of(result.measures[0])
    mean, covariance = (part.astype(np.float64) for part in moments)
    if not np.all(np.isfinite(covariance)):
        return {"covariance": "no longer finite"}
    eigenvalues, prefix = eigenvalues_of(covariance), _member_prefix(result)
    d = len(eigenvalues)
    # Smaller eigenvalues cannot be distinguished from rounding errors of the largest.
    least = d * float(np.finfo(moments[1].dtype).eps) * eigenvalues[0]
    n_negligible = int(np.sum(eigenvalues <= least)) if least > 0 else 0
    count = min(EIGENVALUES, d - n_negligible)
    tail = ", …" if d - n_negligible > count else ""
    if n_negligible:
        tail += f" ({n_negligible} as small as rounding errors omitted)"
    # The covariance of n tokens has rank at most n - 1.
    rank = f"{d}"
    if n is not None and 1 < n <= d:
        rank = f"at most {n - 1}, for {count_phrase(n, 'token')} in {d} dimensions"
    values = {
        "mean": f"of length {np.linalg.norm(mean):.4g}"
        if len(mean) > EIGENVALUES
        else _join(mean),
        "covariance": f"eigenvalues {_join(eigenvalues[:count])}{tail}",
        "rank": f"effective {float(effective_rank(eigenvalues)):.4g} of {rank}",
    }
    return {key: prefix + text for key, text in values.items()}


def _join(numbers: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in numbers)
