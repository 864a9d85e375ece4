"""A report: every row of one run, and what follows from them."""

import datetime as dt
import importlib
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from meanfield._folders import home
from meanfield._registry import suggestion
from meanfield.errors import UnknownNameError

from . import _derived, _machine
from ._running import ROUNDS, Told, rows
from ._trial import OURS, Case, Size, Trial

FIRST = "floor"  # what others are held against


def names() -> list[str]:
    """The cases: files of this folder, the floor first."""
    found = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return sorted(found, key=lambda name: name != FIRST)


def load(name: str) -> Case:
    """The case of that name.

    Raises:
        UnknownNameError: if there is none.
    """
    if name not in names():
        near = suggestion(name, names())
        raise UnknownNameError(f"There is no case `{name}`; {near}")
    return importlib.import_module(f"benchmarks.{name}").CASE


def trials(cases: Sequence[str], size: Size, methods: Sequence[str]) -> list[Trial]:
    """The trials of cases; with patterns of methods, those of the floor and of these.

    Raises:
        UnknownNameError: if there is no such case, or no method that fits.
    """
    found = [trial for name in cases for trial in load(name).trials(size)]
    if not methods:
        return found
    fits = lambda each: any(fnmatch(each.method, pattern) for pattern in methods)
    kept = [each for each in found if each.case == FIRST or fits(each)]
    if all(each.case == FIRST for each in kept):
        known = ", ".join(sorted({f"`{each.method}`" for each in found}))
        raise UnknownNameError(f"No method fits `{methods[0]}`; there are {known}.")
    return kept


def chosen(asked: Sequence[str], size: Size) -> list[str]:
    """Cases in the order in which they are measured: the floor is, unless quick.

    Raises:
        UnknownNameError: if there is none of a name.
    """
    for name in asked:
        load(name)
    wanted = set(asked or names()) | ({FIRST} if size != "quick" else set())
    return [name for name in names() if name in wanted]


def report(
    cases: Sequence[str],
    size: Size,
    methods: Sequence[str],
    *,
    told: Told,
    cut: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measures cases, and says on what machine and when.

    Args:
        cases: their names, in order.
        size: of each.
        methods: patterns of names, such as `ours*`; all methods without any.
        told: hears of each trial before it begins.
        cut: gets what is measured by then when an interrupt ends it.
    """
    asked = trials(cases, size, methods)
    where = _machine.device()
    machine = _machine.described(where)
    found: list[dict[str, Any]] = []

    def so_far() -> dict[str, Any]:
        best = _derived.peaks(found, machine["cores"])
        return {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "size": size,
            "machine": machine,
            "peaks": best,
            "cases": {name: load(name).says for name in cases},
            "rows": _derived.with_ratios(found, best),
            "growth": _derived.growth(found),
        }

    try:
        rounds = 1 if size == "quick" else ROUNDS
        for row in rows(asked, where, told, rounds=rounds):
            found.append(row)  # noqa: PERF402 (an interrupt leaves those before)
    except KeyboardInterrupt:
        cut(so_far())
        raise
    return so_far()


def ours_failed(found: dict[str, Any]) -> list[str]:
    """The rows of ours that could not be measured, in words."""
    return [
        f"{row['case']}, {row['method']}: {row['reason']}"
        for row in found["rows"]
        if row["status"] == "failed" and row["package"] == OURS
    ]


def file_of(found: dict[str, Any]) -> Path:
    """Where the results of a whole run are kept: DATE-DEVICE.json."""
    device = re.sub(r"[^a-z0-9]+", "-", found["machine"]["device"].lower()).strip("-")
    results = home() / "benchmarks" / "results"
    return results / f"{found['date']}-{device}.json"
