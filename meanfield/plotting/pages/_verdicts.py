"""What a report says of its statements, and what of that a page may believe.

A check that is not finite fails, whatever the report says of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._numerals import finite

Record = Mapping[str, Any]

HOLDING = ("statement", "corrected")  # the others must be violated
_NUMBERS = ("observed", "bound", "tolerance")


class Tally(NamedTuple):
    """How often a role was measured, and how often it went as it must."""

    passed: int
    measured: int


def check_passed(check: Record, role: str) -> bool:
    """Whether the claim holds, or the control or the print is violated."""
    numbers = all(finite(check[name]) for name in _NUMBERS)
    return numbers and bool(check["holds" if role in HOLDING else "violated"])


def trial_passed(trial: Record) -> bool:
    """Whether something was measured, and all of it went as it must."""
    checks = trial["checks"]
    good = all(check_passed(check, trial["role"]) for check in checks)
    return bool(trial["passed"]) and bool(checks) and not trial["error"] and good


def passed(statement: Record) -> bool:
    """Whether the claim holds, its control fails, and so for what was printed."""
    trials = statement["trials"]
    return bool(statement["passed"] and trials) and all(map(trial_passed, trials))


def tally(statements: Sequence[Record], role: str) -> Tally:
    """Over all trials of a role."""
    trials = [t for each in statements for t in each["trials"] if t["role"] == role]
    return Tally(sum(map(trial_passed, trials)), len(trials))


def kinds(statement: Record) -> list[str]:
    """What the filters of the page ask for."""
    found = {
        "errata": bool(statement["printed"]),
        "inequalities": any(map(_is_inequality, _claimed(statement))),
        "failed": not passed(statement),
    }
    return [name for name, applies in found.items() if applies]


def _claimed(statement: Record) -> list[Record]:
    trials = [t for t in statement["trials"] if t["role"] == "statement"]
    return [check for trial in trials for check in trial["checks"]]


def _is_inequality(check: Record) -> bool:
    """An identity is measured as an error that is at most zero: that is none."""
    sought = (check["evidence"] or {}).get("kind") == "ascent"
    return sought or (check["relation"] != "=" and check["bound"] != 0)
