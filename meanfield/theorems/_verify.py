"""Selects statements, and tests their claims, controls and misprinted versions."""

import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from meanfield._registry import suggestion
from meanfield.attention import attentions
from meanfield.errors import UnknownNameError

from ._case import Case, Size, Witnesses
from ._check import Check, Checks
from ._statement import Statement, statements
from ._subjects import attention_marks, statements_by_attention

Role = Literal["statement", "control", "printed", "corrected"]

# A measurement has failed if it raises one of these errors; `verify` then continues
# with the next measurement.
MEASUREMENT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    RuntimeWarning,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Trial:
    """Result of measuring a claim, its control, its misprint or its correction.

    Attributes:
        role: what was measured: the claim (`statement`), its `control`, or, on the
            same data, the `printed` claim and the `corrected` one.
        checks: the checks that were measured.
        has_passed: whether the result is the required one: claims and corrections must
            hold, controls and printed claims must fail.
        error: the error that stopped the measurement, if one did.

    Examples:
        >>> from meanfield.theorems import verify_statement
        >>> claim, control = verify_statement("castin2025:eq-2.2").trials
        >>> all(check.holds for check in claim.checks), control.has_passed
        (True, True)
    """

    role: Role
    checks: tuple[Check, ...]
    has_passed: bool
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """Results of measuring a statement, its control and, if it has one, its misprint.

    Attributes:
        id: id of the statement.
        trials: one of the claim and one of its control; if the printed claim is false,
            also one of the printed claim and one of its correction.
        seconds: total time, compilation included.

    Examples:
        >>> from meanfield.theorems import verify_statement
        >>> outcome = verify_statement("castin2025:eq-2.2")
        >>> outcome.has_passed, [trial.role for trial in outcome.trials]
        (True, ['statement', 'control'])
    """

    id: str
    trials: tuple[Trial, ...] = field(default=())
    seconds: float = 0.0

    @property
    def has_passed(self) -> bool:
        """Whether the claim holds, its control fails and its misprint is violated."""
        return all(trial.has_passed for trial in self.trials)


def select_statements(patterns: Sequence[str] = ()) -> list[Statement]:
    """Statements that match any of the patterns; all statements if there are none.

    A pattern that is an id, an alias or a paper selects exactly that. Any other pattern
    is a part of an id or of an alias, or contains wildcards. The name of an attention
    also selects the statements whose code uses it.

    Raises:
        UnknownNameError: if a pattern matches nothing.

    Examples:
        >>> from meanfield.theorems import select_statements
        >>> [entry.id for entry in select_statements(["prop-4.15"])]
        ['castin2025:prop-4.15', 'castin2025:prop-4.15-mean']
    """
    ids = {entry.id for pattern in patterns for entry in _matching_statements(pattern)}
    return [entry for entry in statements.values() if not patterns or entry.id in ids]


def _matching_statements(pattern: str) -> list[Statement]:
    all_statements = list(statements.values())
    marks = {pattern: attention_marks()[pattern]} if pattern in attentions else {}
    ids = statements_by_attention(marks).get(pattern, ())
    exact = [e for e in all_statements if pattern in (*_names(e), e.paper)]
    matches = exact or [
        e for e in all_statements if e.id in ids or _matches(pattern, e)
    ]
    if not matches:
        raise UnknownNameError(
            f"No statement matches `{pattern}`; {_hint(pattern)} "
            "(`meanfield list statements` lists all statements.)"
        )
    return matches


def verify_statement(
    id: str,  # noqa: A002
    size: Size = "quick",
    seed: int = 0,
    witnesses: Mapping[Role, Witnesses] | None = None,
) -> Outcome:
    """Measures the statement `id`, its control and, where there is one, its misprint.

    Examples:
        >>> from meanfield.theorems import verify_statement
        >>> verify_statement("castin2025:eq-2.2").has_passed
        True
    """
    begin, entry = time.perf_counter(), statements[id]
    role_witnesses = witnesses or {}
    case = lambda role: Case(id, size, seed, role_witnesses.get(role, {}))
    trials = [_trial("statement", lambda: entry.measure(case("statement")))]
    if entry.control is None:
        trials.append(
            Trial("control", (), has_passed=False, error="there is no control")
        )
    else:
        control = entry.control.measure
        trials.append(_trial("control", lambda: control(case("control"))))
    misprint_witnesses = {
        **role_witnesses.get("corrected", {}),
        **role_witnesses.get("printed", {}),
    }
    trials.extend(_comparison(entry, Case(id, size, seed, misprint_witnesses)))
    return Outcome(id, tuple(trials), time.perf_counter() - begin)


def _comparison(entry: Statement, case: Case) -> list[Trial]:
    if entry.misprint is None:
        return []
    try:
        counterexample = entry.misprint.measure(case)
    except MEASUREMENT_ERRORS as error:
        return [Trial("printed", (), has_passed=False, error=_error_message(error))]
    return [
        _trial("printed", lambda: counterexample.misprint),
        _trial("corrected", lambda: counterexample.correction),
    ]


def _trial(role: Role, measure: Callable[[], Checks]) -> Trial:
    try:
        checks = tuple(measure())
    except MEASUREMENT_ERRORS as error:
        return Trial(role, (), has_passed=False, error=_error_message(error))
    must_hold = role in ("statement", "corrected")
    good = [c.holds if must_hold else c.is_violated for c in checks]
    return Trial(role, checks, has_passed=bool(checks) and all(good))


def _error_message(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _names(entry: Statement) -> tuple[str, ...]:
    twin = () if entry.misprint is None else (f"{entry.id}:printed",)
    return (entry.id, *entry.aliases, *twin)


def _matches(pattern: str, entry: Statement) -> bool:
    return any(
        pattern in name or fnmatch.fnmatchcase(name, pattern) for name in _names(entry)
    )


def _hint(pattern: str) -> str:
    papers = list(dict.fromkeys(entry.paper for entry in statements.values()))
    hint = suggestion(pattern, [*papers, *attentions, *statements])
    return hint if hint.startswith("did") else f"papers: {', '.join(papers)}."
