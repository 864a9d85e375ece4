"""The report of a run, as lines for people."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from meanfield._counting import counted
from meanfield.cli.terminal._output import number, print_pairs
from meanfield.runs import Result, moments_of
from meanfield.spectrum import effective_rank
from meanfield.storage import RunStore

from ._pictures import more_frames
from ._report_values import Timing as Timing
from ._report_values import as_json, eigenvalues_of
from ._words import ASSUMED, named

EIGENVALUES = 6  # eigenvalues printed for people
COARSE = 1e-3  # relative errors of steps from which a report warns


def print_report(result: Result, timing: Timing) -> None:
    """The report of a run, for people, without the lines that say nothing of it."""
    report = as_json(result, timing)
    residual = f"{_RESIDUALS[report['projected']]} ≤ {number(report['residual'], 2)}"
    steps = f"{report['accepted']} taken, {report['rejected']} refused"
    seconds, compile_seconds = (f"{value:.2f} s" for value in timing)
    pairs = {
        "run": report["run"] or "not stored (use --out)",
        "what": _what(result, report),
        "scores": ASSUMED if report["assumed"] else "",
        "approximation": report["approximation"],
        "caveat": result.caveat,
        "ending": _ending_in_words(result, report),
        "t_star": _t_star_in_words(report),
        "frames": _few_frames(result),
        **_mass(report),
        "doubt": doubt_in_words(report),
        **_moments(result, report["n"]),
        **_energies(result),
        "fall": "" if result.fall is None else result.fall.text,
        "sums": _sums(report),
        "steps": "" if report["forward"] else steps + _coarse(result.spec.rtol),
        "residual": residual if report["residual"] else "",
        "time": f"{seconds} computing, {compile_seconds} compiling",
    }
    print_pairs({key: text for key, text in pairs.items() if text})


def _few_frames(result: Result) -> str:
    """How to see more of a blow-up, of which few frames were asked for."""
    if result.store is None:
        return ""
    kept = RunStore.open(result.store).frames
    return more_frames(result.spec, kept, result.outcome.t_star)


def _ending_in_words(result: Result, report: dict[str, Any]) -> str:
    """How the run ended; of a family how many did so, and which ones did not."""
    outcomes, name = result.outcomes, report["ending"]
    if len(report.get("endings", {})) == 1:
        name = f"{name} × {len(outcomes)}"
    if len(report.get("endings", {})) > 1:  # the reason begins with the counts
        return f"{report['reason']}; known up to t = {number(result.outcome.time)}"
    return f"{name} at t = {number(result.outcome.time)}: {report['reason']}"


def _t_star_in_words(report: dict[str, Any]) -> str:
    """The time of a blow-up; of several the first, and when the last is."""
    time, error = (report[key] for key in ("t_star", "t_star_error"))
    if math.isnan(time):
        return ""
    words = f"{number(time, 10)} ± {number(error, 2)}"
    ends = report.get("t_star_range")
    if ends is None or ends[0] == ends[1]:
        return words
    return f"{words} is the first, {number(ends[1], 10)} the last"


def _first(result: Result) -> str:
    """Whose number it is, where there are several flows."""
    if not result.spec.is_family:
        return ""
    outcome = result.outcomes[0]
    return f"first member ({outcome.name} at t = {number(outcome.time)}): "


def _coarse(rtol: float | None) -> str:
    """What an error of steps leaves open, where it is as large as to matter."""
    if rtol is None or rtol < COARSE:
        return ""
    return (
        f", each to {rtol:g}; the flow may magnify that: compare with "
        f"--rtol {rtol / 10:g}"
    )


def _sums(report: dict[str, Any]) -> str:
    """How sums are taken, and what interpolated ones miss."""
    words = "" if report["reduction"] == "none" else report["reduction"]
    if not words or report["missed"] == 0:
        return words
    size = f"{number(report['missed'], 2)} of the largest"
    if report["missed_at_most"]:
        return f"{words}; velocities are off by at most {size}"
    return f"{words}; velocities are off by some {size}, as compared with exact ones"


def _what(result: Result, report: dict[str, Any]) -> str:
    """What is moved, by what, and of what size it is."""
    spec = result.spec
    size = "" if report["n"] is None else counted(report["n"], "token")
    if "cells" in report:
        positions = report["positions"]
        each = "" if positions is None else f" at each of {positions} positions"
        cells = " × ".join(map(str, report["cells"]))
        size = f"{cells} cells{each}, box {report['box']}"
    if spec.text is not None:
        size += f" of {named(spec.text)}"
    network = "" if spec.model is None else f" of {Path(spec.model).name}"
    motion = f"{spec.moved} under {spec.attention}{network}"
    motion += " to a context" if spec.context else ""
    if spec.flow_of is not None:
        motion = f"{spec.moved} down {spec.mover}"
    if spec.forward:
        motion = f"forward pass{network}"
    sizes = [size, f"d = {report['d']}", report["dtype"]]
    return f"{motion}: {', '.join(filter(None, sizes))}"


def doubt_in_words(report: dict[str, Any]) -> str:
    """How far off a density may be, where known; of a family, the one most in doubt."""
    record = report.get("doubt")
    members = record if isinstance(record, list) else [record]
    doubts = [(i, list(doubt.values())) for i, doubt in enumerate(members) if doubt]
    if not doubts:
        return ""
    index, worst = max(doubts, key=lambda pair: max(pair[1]))
    covariance, mean, box, cells = map(_share, worst)
    owner = f"member {index}, most in doubt: " if isinstance(record, list) else ""
    return (
        f"{owner}the covariance may be off by {covariance} (the box {box}, its cells "
        f"{cells}), the mean by {mean} of the spread"
    )


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if math.isfinite(value) else "any amount"


def _mass(report: dict[str, Any]) -> dict[str, str]:
    """Mass and outflow of a grid, of the first member of a family."""
    if "mass" not in report:
        return {}
    mass, outflow = (np.ravel(report[key])[0] for key in ("mass", "outflow"))
    return {"mass": f"{mass:.10g} on the grid, {outflow:.3g} left it"}


_RESIDUALS = {
    True: "quadrature of the rates, relative,",
    False: "Sinkhorn |log marginal|",
}
_RATES = {"dissipation": "dE/dt = ", "steepest": "dE/dt of the gradient flow = "}


def _energies(result: Result) -> dict[str, str]:
    """Final energies and their rates of change, of the first member of a family."""
    prefix = _first(result)
    rates = {name: _RATES.get(name.partition("_")[0], "") for name in result.observed}
    return {
        name: f"{prefix}{rates[name]}{number(float(np.ravel(value)[0]))}"
        for name, value in result.observed.items()
    }


def _moments(result: Result, n: int | None) -> dict[str, str]:
    """The final mean and spectrum, of the first member of a family; of `n` tokens."""
    stored = moments_of(result.measures[0])
    mean, covariance = (part.astype(np.float64) for part in stored)
    if not np.all(np.isfinite(covariance)):
        return {"covariance": "no longer finite"}
    eigenvalues, prefix = eigenvalues_of(covariance), _first(result)
    d = len(eigenvalues)
    # Below, an eigenvalue is what rounding of the largest left.
    least = d * float(np.finfo(stored[1].dtype).eps) * eigenvalues[0]
    lost = int(np.sum(eigenvalues <= least)) if least > 0 else 0
    count = min(EIGENVALUES, d - lost)
    tail = ", …" if d - lost > count else ""
    tail += f" ({lost} of the size of rounding left out)" if lost else ""
    # Few tokens span little about their mean.
    rank = f"{d}"
    if n is not None and 1 < n <= d:
        rank = f"at most {n - 1}, for {counted(n, 'token')} in {d} dimensions"
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
