"""Reports: the rows of one benchmark run, and derived quantities."""

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
from ._running import ROUNDS, OnTrial, rows
from ._trial import OURS, Case, Size, Trial

FIRST = "floor"  # this case is measured first, and gives the peak rates


def names() -> list[str]:
    """Names of the cases, which are modules of this folder; `floor` comes first."""
    files = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return sorted(files, key=lambda name: name != FIRST)


def load(name: str) -> Case:
    """The benchmark case called `name`.

    Raises:
        UnknownNameError: if there is no such case.
    """
    if name not in names():
        near = suggestion(name, names())
        raise UnknownNameError(f"There is no benchmark case `{name}`; {near}")
    return importlib.import_module(f"benchmarks.{name}").CASE


def select_trials(
    cases: Sequence[str], size: Size, methods: Sequence[str]
) -> list[Trial]:
    """The trials whose methods match a pattern, and all trials of the case `floor`.

    If `methods` is empty, the trials of all methods are selected.

    Raises:
        UnknownNameError: if a case does not exist, or no method matches.
    """
    candidates = [trial for name in cases for trial in load(name).trials(size)]
    if not methods:
        return candidates
    fits = lambda trial: any(fnmatch(trial.method, pattern) for pattern in methods)
    selection = [trial for trial in candidates if trial.case == FIRST or fits(trial)]
    if all(trial.case == FIRST for trial in selection):
        choices = ", ".join(sorted({f"`{trial.method}`" for trial in candidates}))
        raise UnknownNameError(
            f"No method matches `{methods[0]}`; the methods are {choices}."
        )
    return selection


def select_cases(cases: Sequence[str], size: Size) -> list[str]:
    """Cases in the order of measurement; only the quick size can omit `floor`.

    Raises:
        UnknownNameError: if a case does not exist.
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
    on_trial: OnTrial,
    on_row: Callable[[dict[str, Any]], None],
    on_interrupt: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Measures cases, and returns their rows, derived quantities, machine and date.

    Args:
        cases: names of the cases, in order.
        size: problem size.
        methods: patterns of method names, such as `ours*`; all methods if empty.
        on_trial: function that is called before each trial.
        on_row: function that receives all results so far, after each trial.
        on_interrupt: function that receives all results so far, after an interrupt.
    """
    selection = select_trials(cases, size, methods)
    where = _machine.device()
    machine = _machine.describe(where)
    measurements: list[dict[str, Any]] = []
    so_far = lambda: _make_report(measurements, machine, cases, size)
    try:
        rounds = 1 if size == "quick" else ROUNDS
        for row in rows(selection, where, on_trial, rounds=rounds):
            measurements.append(row)
            on_row(so_far())
    except KeyboardInterrupt:
        on_interrupt(so_far())
        raise
    return so_far()


def _make_report(
    measurements: Sequence[dict[str, Any]],
    machine: dict[str, Any],
    cases: Sequence[str],
    size: Size,
) -> dict[str, Any]:
    """The report of the rows that have been measured so far."""
    best_rates = _derived.peaks(measurements, machine["cores"])
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "size": size,
        "machine": machine,
        "peaks": best_rates,
        "cases": {name: load(name).description for name in cases},
        "rows": _derived.with_ratios(measurements, best_rates),
        "growth": _derived.growth(measurements),
    }


def ours_failed(findings: dict[str, Any]) -> list[str]:
    """Descriptions of the rows of this library that failed."""
    return [
        f"{row['case']}, {row['method']}: {row['reason']}"
        for row in findings["rows"]
        if row["status"] == "failed" and row["package"] == OURS
    ]


def file_of(findings: dict[str, Any]) -> Path:
    """Path of the results of a full run: benchmarks/results/DATE-DEVICE.json."""
    device = findings["machine"]["device"].lower()
    name = re.sub(r"[^a-z0-9]+", "-", device).strip("-")
    return Path("benchmarks", "results", f"{findings['date']}-{name}.json")
