"""Measuring statements: which, how it ended, how long it took."""

import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from meanfield._registry import suggestion
from meanfield.errors import UnknownNameError

from ._case import Case, Size
from ._check import Check
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

    A pattern is an id, an alias, a paper, a part of an id, or has wildcards.

    Raises:
        UnknownNameError: if a pattern matches nothing.
    """
    for pattern in patterns:
        if not any(_matches(pattern, each) for each in statements.values()):
            raise UnknownNameError(
                f"No statement matches `{pattern}`; {_hint(pattern)} "
                "(`meanfield list statements` has all.)"
            )
    return [
        each
        for each in statements.values()
        if not patterns or any(_matches(pattern, each) for pattern in patterns)
    ]


def measured(
    id: str,  # noqa: A002
    size: Size = "quick",
    seed: int = 0,
    witnesses: Mapping[Role, Witnesses] | None = None,
) -> Outcome:
    """The statement `id` with its control and, where there is one, its printed form."""
    begin, made = time.perf_counter(), statements[id]
    known = witnesses or {}
    case = lambda role: Case(id, size, seed, known.get(role, {}))
    trials = [_trial("statement", lambda: made.measure(case("statement")))]
    if made.control is None:
        trials.append(Trial("control", (), passed=False, error="there is no control"))
    else:
        control = made.control.measure
        trials.append(_trial("control", lambda: control(case("control"))))
    trials.extend(_comparison(made, case("printed")))
    return Outcome(id, tuple(trials), time.perf_counter() - begin)


def _comparison(made: Statement, case: Case) -> list[Trial]:
    if made.printed is None:
        return []
    try:
        both = made.printed.measure(case)
    except BROKEN as error:
        return [Trial("printed", (), passed=False, error=_said(error))]
    printed = _trial("printed", lambda: both.printed)
    corrected = _trial("corrected", lambda: both.corrected)
    return [printed, corrected] if both.corrected else [printed]


def _trial(role: Role, measure: Callable[[], tuple[Check, ...]]) -> Trial:
    try:
        checks = measure()
    except BROKEN as error:
        return Trial(role, (), passed=False, error=_said(error))
    must_hold = role in ("statement", "corrected")
    good = [c.holds if must_hold else c.violated for c in checks]
    return Trial(role, checks, passed=bool(checks) and all(good))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _matches(pattern: str, made: Statement) -> bool:
    twin = () if made.printed is None else (f"{made.id}:printed",)
    names = (made.id, *made.aliases, *twin)
    exact = pattern in names or pattern == made.paper
    inside = any(pattern in name for name in names)
    wild = any(fnmatch.fnmatchcase(name, pattern) for name in names)
    return exact or inside or wild


def _hint(pattern: str) -> str:
    papers = list(dict.fromkeys(each.paper for each in statements.values()))
    near = suggestion(pattern, [*papers, *statements])
    return near if near.startswith("did") else f"papers: {', '.join(papers)}."
