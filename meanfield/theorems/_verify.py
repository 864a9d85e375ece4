"""Measuring statements: which, how it ended, how long it took."""

import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from meanfield._registry import suggestion
from meanfield.errors import UnknownNameError

from ._case import Case, Size
from ._check import Check, Checks
from ._statement import Statement, statements

Role = Literal["statement", "control", "printed", "corrected"]
Witnesses = Mapping[str, Mapping[str, Any]]

# What broken mathematics raises: then the measurement has failed, and says so.
BROKEN = (
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
    """One role of a statement, measured.

    Attributes:
        role: the claim itself, its control, its printed form, or the correction on the
            data of the printed form.
        checks: what was measured.
        passed: whether it went as it must: claims hold, controls and prints fail.
        error: what was raised instead of a measurement.

    Examples:
        >>> from meanfield.theorems import measured
        >>> claim, control = measured("castin2025:eq-2.2").trials
        >>> all(check.holds for check in claim.checks), control.passed
        (True, True)
    """

    role: Role
    checks: tuple[Check, ...]
    passed: bool
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """A statement, measured in all its roles.

    Attributes:
        id: of the statement.
        trials: one for each role.
        seconds: all of it, compilation included.

    Examples:
        >>> from meanfield.theorems import measured
        >>> outcome = measured("castin2025:eq-2.2")
        >>> outcome.passed, [trial.role for trial in outcome.trials]
        (True, ['statement', 'control'])
    """

    id: str
    trials: tuple[Trial, ...] = field(default=())
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the claim holds, the control fails and the print is violated."""
        return all(trial.passed for trial in self.trials)


def chosen(patterns: Sequence[str] = ()) -> list[Statement]:
    """The statements that match any of the patterns, all if there are none.

    A pattern is an id, an alias or a paper, and then means that alone; or a part of an
    id, or has wildcards.

    Raises:
        UnknownNameError: if a pattern matches nothing.

    Examples:
        >>> from meanfield.theorems import chosen
        >>> [made.id for made in chosen(["prop-4.15"])]
        ['castin2025:prop-4.15', 'castin2025:prop-4.15-mean']
    """
    wanted = {each.id for pattern in patterns for each in _matching(pattern)}
    return [each for each in statements.values() if not patterns or each.id in wanted]


def _matching(pattern: str) -> list[Statement]:
    every = list(statements.values())
    exact = [e for e in every if pattern in (*_names(e), e.paper)]
    found = exact or [each for each in every if _matches(pattern, each)]
    if not found:
        raise UnknownNameError(
            f"No statement matches `{pattern}`; {_hint(pattern)} "
            "(`meanfield list statements` has all.)"
        )
    return found


def measured(
    id: str,  # noqa: A002
    size: Size = "quick",
    seed: int = 0,
    witnesses: Mapping[Role, Witnesses] | None = None,
) -> Outcome:
    """The statement `id` with its control and, where there is one, its printed form.

    Examples:
        >>> from meanfield.theorems import measured
        >>> measured("castin2025:eq-2.2").passed
        True
    """
    begin, made = time.perf_counter(), statements[id]
    known = witnesses or {}
    case = lambda role: Case(id, size, seed, known.get(role, {}))
    trials = [_trial("statement", lambda: made.measure(case("statement")))]
    if made.control is None:
        trials.append(Trial("control", (), passed=False, error="there is no control"))
    else:
        control = made.control.measure
        trials.append(_trial("control", lambda: control(case("control"))))
    both = {**known.get("corrected", {}), **known.get("printed", {})}
    trials.extend(_comparison(made, Case(id, size, seed, both)))
    return Outcome(id, tuple(trials), time.perf_counter() - begin)


def _comparison(made: Statement, case: Case) -> list[Trial]:
    if made.printed is None:
        return []
    try:
        both = made.printed.measure(case)
    except BROKEN as error:
        return [Trial("printed", (), passed=False, error=_said(error))]
    return [
        _trial("printed", lambda: both.printed),
        _trial("corrected", lambda: both.corrected),
    ]


def _trial(role: Role, measure: Callable[[], Checks]) -> Trial:
    try:
        checks = tuple(measure())
    except BROKEN as error:
        return Trial(role, (), passed=False, error=_said(error))
    must_hold = role in ("statement", "corrected")
    good = [c.holds if must_hold else c.violated for c in checks]
    return Trial(role, checks, passed=bool(checks) and all(good))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _names(made: Statement) -> tuple[str, ...]:
    twin = () if made.printed is None else (f"{made.id}:printed",)
    return (made.id, *made.aliases, *twin)


def _matches(pattern: str, made: Statement) -> bool:
    return any(
        pattern in name or fnmatch.fnmatchcase(name, pattern) for name in _names(made)
    )


def _hint(pattern: str) -> str:
    papers = list(dict.fromkeys(each.paper for each in statements.values()))
    near = suggestion(pattern, [*papers, *statements])
    return near if near.startswith("did") else f"papers: {', '.join(papers)}."
