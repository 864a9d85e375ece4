"""Verdicts of a report, re-evaluated for a page.

A check with a number that is not finite fails, whatever the report says.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._numerals import finite

Record = Mapping[str, Any]

# The checks of these trials must hold; those of other trials must be violated.
HOLDING = ("statement", "corrected")


class Tally(NamedTuple):
    """The numbers of passed trials and of all trials of one kind, such as controls."""

    n_passed: int
    n_measured: int


def is_finite(check: Record) -> bool:
    """Whether the numbers of a check are finite."""
    return all(finite(check[name]) for name in ("observed", "bound", "tolerance"))


def check_passed(check: Record, role: str) -> bool:
    """Whether a check holds or, in a control or a misprint, whether it is violated."""
    name = "holds" if role in HOLDING else "is_violated"
    return is_finite(check) and bool(check[name])


def trial_passed(trial: Record) -> bool:
    """Whether a trial ran without error and has checks, all of which passed."""
    checks = trial["checks"]
    good = all(check_passed(check, trial["role"]) for check in checks)
    return bool(trial["has_passed"]) and bool(checks) and not trial["error"] and good


def statement_passed(statement: Record) -> bool:
    """Whether all trials of a statement passed: claim, control, printed version."""
    trials = statement["trials"]
    return bool(statement["has_passed"] and trials) and all(map(trial_passed, trials))


def tally(statements: Sequence[Record], role: str) -> Tally:
    """The tally over all trials with one role, such as `control`."""
    trials = [t for record in statements for t in record["trials"] if t["role"] == role]
    return Tally(sum(map(trial_passed, trials)), len(trials))


def kinds(statement: Record) -> list[str]:
    """The filters of the page that apply to a statement."""
    trials = [t for t in statement["trials"] if t["role"] == "statement"]
    checks = [check for trial in trials for check in trial["checks"]]
    flags = {
        "errata": bool(statement["printed"]),
        "inequalities": any(map(_is_inequality, checks)),
        "failed": not statement_passed(statement),
    }
    return [name for name, applies in flags.items() if applies]


def _is_inequality(check: Record) -> bool:
    """Whether a check is an inequality; an identity has the sign = or the bound 0."""
    is_ascent = (check["evidence"] or {}).get("kind") == "ascent"
    return is_ascent or (check["relation"] != "=" and check["bound"] != 0)
