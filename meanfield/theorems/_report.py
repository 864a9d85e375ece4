"""Outcomes as plain values: what JSON, tables, pages and replays are made of."""

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from meanfield._reading import json_value, read_text
from meanfield.errors import InputFileError

from ._case import Case, Size
from ._check import Ascent, Check, Fit
from ._statement import Statement, statements
from ._verify import Outcome, Trial, Witnesses

FORMAT = "meanfield-verification-1"

Record = dict[str, Any]


def described(made: Statement) -> Record:
    """What is said of a statement, before any measurement.

    Examples:
        >>> from meanfield.theorems import described, statements
        >>> described(statements["castin2025:eq-2.2"])["id"]
        'castin2025:eq-2.2'
    """
    printed = made.printed
    return {
        "id": made.id,
        "aliases": list(made.aliases),
        "paper": made.paper,
        "group": made.group,
        "source": made.source,
        "claim": made.claim,
        "hypotheses": made.hypotheses,
        "protocol": made.protocol,
        "remark": made.remark,
        "repeats": made.repeats,
        "control": "" if made.control is None else made.control.text,
        "errata": [] if printed is None else list(printed.errata),
        "printed": "" if printed is None else printed.printed,
        "corrected": "" if printed is None else printed.corrected,
        "counterexample": "" if printed is None else printed.counterexample,
    }


def record(outcome: Outcome) -> Record:
    """A statement with its outcome."""
    return {
        **described(statements[outcome.id]),
        "passed": outcome.passed,
        "verdict": _verdict(outcome),
        "seconds": round(outcome.seconds, 2),
        "trials": [_trial(trial) for trial in outcome.trials],
    }


def report(outcomes: Sequence[Outcome], size: Size, seed: int) -> Record:
    """All of a verification, in the order of registration.

    Examples:
        >>> from meanfield.theorems import measured, report
        >>> sorted(report([measured("castin2025:eq-2.2")], "quick", 0))
        ['dtype', 'format', 'passed', 'seed', 'size', 'statements']
    """
    order = {id: place for place, id in enumerate(statements)}  # noqa: A001
    ranked = sorted(outcomes, key=lambda outcome: order[outcome.id])
    return {
        "format": FORMAT,
        "size": size,
        "seed": seed,
        "dtype": "float64",
        "passed": all(outcome.passed for outcome in ranked),
        "statements": [record(outcome) for outcome in ranked],
    }


def read_report(file: Path) -> Record:
    """A report, read from the JSON that was printed.

    Raises:
        InputFileError: if the file is missing, damaged, or holds something else.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> from meanfield.theorems import measured, read_report, report
        >>> verified = report([measured("castin2025:eq-2.2")], "quick", 0)
        >>> _ = Path("report.json").write_text(json.dumps(verified))
        >>> sorted(read_report(Path("report.json"))) == sorted(verified)
        True
    """
    try:
        found = json_value(read_text(file))
    except ValueError as error:
        raise InputFileError(f"`{file}` cannot be read as a report: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputFileError(
            f"`{file}` is no report of `meanfield verify --json` ({FORMAT})."
        )
    try:
        Case("", *itemgetter("size", "seed")(found)).rng("a draw")
        witnesses(found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputFileError(
            f"`{file}` is damaged: {type(error).__name__}: {error}; measure anew."
        ) from error
    return found


def witnesses(report: Record) -> Mapping[str, Mapping[str, Witnesses]]:
    """By statement, role and label: where the ascents of a report ended.

    Examples:
        >>> from meanfield.theorems import measured, report, witnesses
        >>> unattacked = report([measured("castin2025:eq-2.2")], "quick", 0)
        >>> witnesses(unattacked)
        {'castin2025:eq-2.2': {'statement': {}, 'control': {}}}
    """
    return {
        each["id"]: {
            trial["role"]: {
                check["label"]: check["evidence"]["witness"]
                for check in trial["checks"]
                if (check["evidence"] or {}).get("kind") == "ascent"
            }
            for trial in each["trials"]
        }
        for each in report["statements"]
    }


def _verdict(outcome: Outcome) -> str:
    """How the first role ended that went wrong; `error` where nothing was measured."""
    for trial in outcome.trials:
        if not trial.passed:
            return _said(trial) if trial.checks else "error"
    return "holds"


def _said(trial: Trial) -> str:
    """What is wrong with a trial whose checks were measured."""
    must_hold = {
        "statement": "fails",
        "corrected": "the correction fails on the counterexample",
    }
    if trial.role in must_hold:
        return must_hold[trial.role]
    name = {"control": "its control", "printed": "the print"}[trial.role]
    if any(check.holds for check in trial.checks):
        return f"holds, and so does {name}"
    near = next(check for check in trial.checks if not check.violated)
    if not math.isfinite(near.observed):
        return f"holds, but {name} gives {near.observed}, which refutes nothing"
    return (
        f"holds, but {name} fails by too little: {near.observed:.4g}, where "
        f"{near.refuted} would do"
    )


def _trial(trial: Trial) -> Record:
    return {
        "role": trial.role,
        "passed": trial.passed,
        "error": trial.error,
        "checks": [_check(check) for check in trial.checks],
    }


def _check(check: Check) -> Record:
    return {
        "label": check.label,
        "observed": float(check.observed),
        "relation": check.relation,
        "bound": float(check.bound),
        "tolerance": float(check.tolerance),
        "why": check.why,
        "holds": check.holds,
        "violated": check.violated,
        "tightness": None if check.tightness is None else float(check.tightness),
        "evidence": _evidence(check.evidence),
    }


def _evidence(evidence: Fit | Ascent | None) -> Record | None:
    if evidence is None:
        return None
    kind = "fit" if isinstance(evidence, Fit) else "ascent"
    plain = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in evidence._asdict().items()
    }
    return {"kind": kind, **plain}
