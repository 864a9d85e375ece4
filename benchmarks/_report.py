"""A report: every row of one run, and what follows from them."""

import datetime as dt
import importlib
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from meanfield._registry import suggestion
from meanfield.errors import UnknownNameError

from . import _derived, _machine
from ._running import ROUNDS, Told, rows
from ._trial import OURS, Case, Size, Trial

FIRST = "floor"  # what others are held against


def names() -> list[str]:
    """The cases: files of this folder, the floor first."""
    files = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return sorted(files, key=lambda name: name != FIRST)


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
    candidates = [trial for name in cases for trial in load(name).trials(size)]
    if not methods:
        return candidates
    fits = lambda trial: any(fnmatch(trial.method, pattern) for pattern in methods)
    selection = [trial for trial in candidates if trial.case == FIRST or fits(trial)]
    if all(trial.case == FIRST for trial in selection):
        choices = ", ".join(sorted({f"`{trial.method}`" for trial in candidates}))
        raise UnknownNameError(f"No method fits `{methods[0]}`; there are {choices}.")
    return selection


def chosen(cases: Sequence[str], size: Size) -> list[str]:
    """Cases in the order in which they are measured: the floor is, unless quick.

    Raises:
        UnknownNameError: if there is none of a name.
    """
    for name in cases:
        load(name)
    selection = set(cases or names()) | ({FIRST} if size != "quick" else set())
    return [name for name in names() if name in selection]


def report(
    cases: Sequence[str],
    size: Size,
    methods: Sequence[str],
    *,
    told: Told,
    kept: Callable[[dict[str, Any]], None],
    cut: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measures cases, and says on what machine and when.

    Args:
        cases: their names, in order.
        size: of each.
        methods: patterns of names, such as `ours*`; all methods without any.
        told: hears of each trial before it begins.
        kept: gets what is measured after each trial.
        cut: gets what is measured by then when an interrupt ends it.
    """
    selection = trials(cases, size, methods)
    where = _machine.device()
    machine = _machine.described(where)
    measurements: list[dict[str, Any]] = []
    so_far = lambda: _findings(measurements, machine, cases, size)
    try:
        rounds = 1 if size == "quick" else ROUNDS
        for row in rows(selection, where, told, rounds=rounds):
            measurements.append(row)
            kept(so_far())
    except KeyboardInterrupt:
        cut(so_far())
        raise
    return so_far()


def _findings(
    measurements: Sequence[dict[str, Any]],
    machine: dict[str, Any],
    cases: Sequence[str],
    size: Size,
) -> dict[str, Any]:
    """Rows, and what follows from them."""
    best = _derived.peaks(measurements, machine["cores"])
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "size": size,
        "machine": machine,
        "peaks": best,
        "cases": {name: load(name).says for name in cases},
        "rows": _derived.with_ratios(measurements, best),
        "growth": _derived.growth(measurements),
    }


def ours_failed(findings: dict[str, Any]) -> list[str]:
    """The rows of ours that could not be measured, in words."""
    return [
        f"{row['case']}, {row['method']}: {row['reason']}"
        for row in findings["rows"]
        if row["status"] == "failed" and row["package"] == OURS
    ]


def file_of(findings: dict[str, Any]) -> Path:
    """Where the results of a whole run are kept: DATE-DEVICE.json."""
    device = findings["machine"]["device"].lower()
    name = re.sub(r"[^a-z0-9]+", "-", device).strip("-")
    return Path("benchmarks", "results", f"{findings['date']}-{name}.json")
