"""Reports of verifications as plain values, for JSON, tables, pages and replays."""

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from meanfield._reading import json_value, read_text
from meanfield._stored_names import rename_keys
from meanfield.errors import InputFileError

from ._case import Case, Size, Witnesses
from ._check import Ascent, Check, Fit
from ._statement import Statement, statements
from ._verify import Outcome, Trial

FORMAT = "meanfield-verification-2"
# Format of reports from before version 0.3, in which some keys have other names.
OLD_FORMAT = "meanfield-verification-1"

Record = dict[str, Any]


def describe_statement(statement: Statement) -> Record:
    """Describes a statement by plain values, without measuring anything.

    Examples:
        >>> from meanfield.theorems import describe_statement, statements
        >>> describe_statement(statements["castin2025:eq-2.2"])["id"]
        'castin2025:eq-2.2'
    """
    misprint = statement.misprint
    return {
        "id": statement.id,
        "aliases": list(statement.aliases),
        "paper": statement.paper,
        "group": statement.group,
        "source": statement.source,
        "claim": statement.claim,
        "hypotheses": statement.hypotheses,
        "protocol": statement.protocol,
        "remark": statement.remark,
        "repeats": statement.repeats,
        "control": "" if statement.control is None else statement.control.text,
        "errata": [] if misprint is None else list(misprint.errata),
        "printed": "" if misprint is None else misprint.claim,
        "corrected": "" if misprint is None else misprint.correction,
        "counterexample": "" if misprint is None else misprint.counterexample,
    }


def record(outcome: Outcome) -> Record:
    """Describes a statement and its measured outcome by plain values."""
    return {
        **describe_statement(statements[outcome.id]),
        "has_passed": outcome.has_passed,
        "verdict": _verdict(outcome),
        "seconds": round(outcome.seconds, 2),
        "trials": [_trial(trial) for trial in outcome.trials],
    }


def report(outcomes: Sequence[Outcome], size: Size, seed: int) -> Record:
    """Report of a verification: settings and outcomes, in the order of registration.

    Examples:
        >>> from meanfield.theorems import report, verify_statement
        >>> sorted(report([verify_statement("castin2025:eq-2.2")], "quick", 0))
        ['dtype', 'format', 'has_passed', 'seed', 'size', 'statements']
    """
    order = {id: place for place, id in enumerate(statements)}  # noqa: A001
    sorted_outcomes = sorted(outcomes, key=lambda outcome: order[outcome.id])
    return {
        "format": FORMAT,
        "size": size,
        "seed": seed,
        "dtype": "float64",
        "has_passed": all(outcome.has_passed for outcome in sorted_outcomes),
        "statements": [record(outcome) for outcome in sorted_outcomes],
    }


def read_report(file: Path) -> Record:
    """Reads a report from the output of `meanfield verify --json`.

    Raises:
        InputFileError: if the file is missing or damaged, or is not a report.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> from meanfield.theorems import read_report, report, verify_statement
        >>> verified = report([verify_statement("castin2025:eq-2.2")], "quick", 0)
        >>> _ = Path("report.json").write_text(json.dumps(verified))
        >>> sorted(read_report(Path("report.json"))) == sorted(verified)
        True
    """
    try:
        content = json_value(read_text(file))
    except ValueError as error:
        raise InputFileError(f"The report `{file}` cannot be read: {error}") from error
    formats = FORMAT, OLD_FORMAT
    if not isinstance(content, dict) or content.get("format") not in formats:
        raise InputFileError(
            f"`{file}` is not a report written by `meanfield verify --json`: "
            f"its `format` must be `{FORMAT}`."
        )
    try:
        Case("", *itemgetter("size", "seed")(content)).rng("a draw")
        witnesses(content)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputFileError(
            f"The report `{file}` is damaged ({type(error).__name__}: {error}). "
            "Write it again with `meanfield verify --json`."
        ) from error
    return {**rename_keys("verification", content), "format": FORMAT}


def witnesses(report: Record) -> Mapping[str, Mapping[str, Witnesses]]:
    """Witnesses of the ascents in a report, by statement, role and label.

    The role is what a trial measures, such as `statement` or `control`. The label is
    that of a check.

    Examples:
        >>> from meanfield.theorems import report, verify_statement, witnesses
        >>> no_ascents = report([verify_statement("castin2025:eq-2.2")], "quick", 0)
        >>> witnesses(no_ascents)
        {'castin2025:eq-2.2': {'statement': {}, 'control': {}}}
    """
    return {
        entry["id"]: {
            trial["role"]: {
                check["label"]: check["evidence"]["witness"]
                for check in trial["checks"]
                if (check["evidence"] or {}).get("kind") == "ascent"
            }
            for trial in entry["trials"]
        }
        for entry in report["statements"]
    }


def _verdict(outcome: Outcome) -> str:
    """Verdict of an outcome: `holds`, or how the first failing trial failed.

    A failing trial that has no checks gives the verdict `error`.
    """
    for trial in outcome.trials:
        if not trial.has_passed:
            return _failure_summary(trial) if trial.checks else "error"
    return "holds"


def _failure_summary(trial: Trial) -> str:
    """Explains in words why a trial with checks did not pass."""
    must_hold = {
        "statement": "fails",
        "corrected": "the correction fails on the counterexample",
    }
    if trial.role in must_hold:
        return must_hold[trial.role]
    name = {"control": "its control", "printed": "its misprint"}[trial.role]
    if any(check.holds for check in trial.checks):
        return f"holds, and so does {name}"
    weak_check = next(check for check in trial.checks if not check.is_violated)
    if not math.isfinite(weak_check.observed):
        return f"holds, but {name} gives {weak_check.observed}, which refutes nothing"
    return (
        f"holds, but {name} fails by too little: {weak_check.observed:.4g}, where "
        f"{weak_check.violation_range} would do"
    )


def _trial(trial: Trial) -> Record:
    return {
        "role": trial.role,
        "has_passed": trial.has_passed,
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
        "is_violated": check.is_violated,
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
