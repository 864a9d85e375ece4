"""The report of a run, as lines for people."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from meanfield._counting import counted
from meanfield.cli.terminal._output import number, print_pairs
from meanfield.runs import Result, assumes_identity, moments_of
from meanfield.spec import RunSpec
from meanfield.spectrum import effective_rank
from meanfield.storage import RunStore

from ._pictures import more_frames
from ._report_values import Timing, as_json, eigenvalues_of
from ._words import named

EIGENVALUES = 6  # eigenvalues printed for people
COARSE = 1e-3  # relative errors of steps from which a report warns
ASSUMED = "A = I, by default: `--A`, or `--Q` and `--K`, give others"


def print_report(result: Result, timing: Timing) -> None:
    """The report of a run, for people."""
    report = as_json(result, timing)
    pairs = {
        "run": report["run"] or "not stored (use --out)",
        "what": _what(result.spec, report),
        "scores": ASSUMED,
        "approximation": report["approximation"] or "",
        "caveat": result.caveat,
        "ending": _ending_in_words(result, report),
        "t_star": t_star_in_words(report),
        "frames": _few_frames(result),
        **_mass(report),
        "doubt": doubt_in_words(report),
        **_moments(result, report["n"]),
        **_observed(result),
        "fall": "" if result.fall is None else result.fall.text,
        "sums": f"{report['reduction']}{_missed(report)}",
        "steps": f"{report['accepted']} taken, {report['rejected']} refused"
        f"{_coarse(result.spec)}",
        "residual": f"{_residual(result.spec)} ≤ {number(report['residual'], 2)}",
        "time": f"{timing.seconds:.2f} s computing, {timing.compile_seconds:.2f} s "
        "compiling",
    }
    idle = _idle(result.spec, report)
    print_pairs({k: text for k, text in pairs.items() if text and k not in idle})


def _idle(spec: RunSpec, report: dict[str, Any]) -> set[str]:
    """The lines of which there is nothing to say of this run."""
    absences = {
        "t_star": math.isnan(report["t_star"]),
        "approximation": not report["approximation"],
        "scores": not assumes_identity(spec),
        "residual": report["residual"] == 0,
        "sums": report["reduction"] == "none",
        "steps": spec.forward,
        "doubt": not doubt_in_words(report),
    }
    return {key for key, is_absent in absences.items() if is_absent}


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


def t_star_in_words(report: dict[str, Any]) -> str:
    """The time of a blow-up; of several the first, and when the last is."""
    time, error = (report[key] for key in ("t_star", "t_star_error"))
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


def _coarse(spec: RunSpec) -> str:
    """What an error of steps leaves open, where it is as large as to matter."""
    if spec.rtol is None or spec.rtol < COARSE:
        return ""
    return (
        f", each to {spec.rtol:g}; the flow may magnify that: compare with "
        f"--rtol {spec.rtol / 10:g}"
    )


def _missed(report: dict[str, Any]) -> str:
    """What interpolated sums missed; exact ones miss nothing."""
    if report["missed"] == 0:
        return ""
    size = f"{number(report['missed'], 2)} of the largest"
    if report["missed_at_most"]:
        return f"; velocities are off by at most {size}"
    return f"; velocities are off by some {size}, as compared with exact ones"


def _residual(spec: RunSpec) -> str:
    if spec.projected:
        return "quadrature of the rates, relative,"
    return "Sinkhorn |log marginal|"


def _what(spec: RunSpec, report: dict[str, Any]) -> str:
    size = "" if report["n"] is None else f"{counted(report['n'], 'token')}, "
    if "cells" in report:
        size = f"{_cells(report)}, box {report['box']}, "
    if spec.text is not None:
        size = f"{size[:-2]} of {named(spec.text)}, "
    return f"{_motion(spec)}: {size}d = {report['d']}, {report['dtype']}"


def _motion(spec: RunSpec) -> str:
    """What is moved, and by what."""
    network = "" if spec.model is None else f" of {Path(spec.model).name}"
    if spec.forward:
        return f"forward pass{network}"
    if spec.flow_of is not None:
        return f"{spec.moved} down {spec.mover}"
    across = " to a context" if spec.context else ""
    return f"{spec.moved} under {spec.attention}{network}{across}"


def _cells(report: dict[str, Any]) -> str:
    cells = f"{' × '.join(map(str, report['cells']))} cells"
    layers = report["positions"]
    return cells if layers is None else f"{cells} at each of {layers} positions"


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


_RATES = {"dissipation": "dE/dt = ", "steepest": "dE/dt of the gradient flow = "}


def _observed(result: Result) -> dict[str, str]:
    """Final energies and their rates of change, of the first member of a family."""
    prefix = _first(result)
    rate = lambda name: _RATES.get(name.partition("_")[0], "")
    return {
        name: f"{prefix}{rate(name)}{number(float(np.ravel(value)[0]))}"
        for name, value in result.observed.items()
    }


def _moments(result: Result, n: int | None) -> dict[str, str]:
    """The final mean and spectrum, of the first member of a family; of `n` tokens."""
    stored = moments_of(result.measures[0])
    mean, covariance = (part.astype(np.float64) for part in stored)
    if not np.all(np.isfinite(covariance)):
        return {"covariance": "no longer finite"}
    eigenvalues, prefix = eigenvalues_of(covariance), _first(result)
    # Below, an eigenvalue is what rounding of the largest left.
    least = len(eigenvalues) * float(np.finfo(stored[1].dtype).eps) * eigenvalues[0]
    lost = int(np.sum(eigenvalues <= least)) if least > 0 else 0
    count = min(EIGENVALUES, len(eigenvalues) - lost)
    head = ", ".join(f"{value:.4g}" for value in eigenvalues[:count])
    tail = ", …" if len(eigenvalues) - lost > count else ""
    tail += f" ({lost} of the size of rounding left out)" if lost else ""
    rank = float(effective_rank(eigenvalues))
    return {
        "mean": f"{prefix}{_mean(mean)}",
        "covariance": f"{prefix}eigenvalues {head}{tail}",
        "rank": f"{prefix}effective {rank:.4g} of {_most_ranks(len(eigenvalues), n)}",
    }


def _most_ranks(d: int, n: int | None) -> str:
    """The largest rank that a covariance may have: of few tokens about their mean."""
    if n is None or n > d or n == 1:
        return f"{d}"
    return f"at most {n - 1}, for {counted(n, 'token')} in {d} dimensions"


def _mean(mean: np.ndarray) -> str:
    """A mean by its entries; by its length where these are many."""
    if len(mean) > EIGENVALUES:
        return f"of length {np.linalg.norm(mean):.4g}"
    return ", ".join(f"{value:.4g}" for value in mean)
