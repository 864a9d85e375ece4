"""Progress and report of a sweep."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from meanfield import runs
from meanfield.cli.process._session import CLOCK
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import (
    note,
    number,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.endings import Status

from ._texts import ASSUMPTION

if TYPE_CHECKING:
    from meanfield.workers import Processes

MAX_ROWS = 12  # with more cells, the report has no row for each cell
TABLE_COLUMNS = {"t": "stop_time", "t*": "t_star", "effective rank": "effective_rank"}


class Pace:
    """Progress of a sweep, with the time left if the speed so far continues."""

    def __init__(self, progress: RunProgress, helpers: "Processes") -> None:
        self._progress = progress
        self._helpers = helpers
        self._first: tuple[float, int] | None = None

    def __call__(self, step: "runs.SweepProgress") -> None:
        for answer in self._helpers.answers(0.0):
            if answer.error is not None:
                note(f"a worker ended early ({answer.error}): others do its cells")
        # The speed is computed without the time that compilation takes.
        timestamp = time.perf_counter() - CLOCK.seconds
        begin, start = self._first = self._first or (timestamp, step.n_done)
        if step.n_done == start:
            return
        # The clock counts a compilation when it ends, so a compilation in another
        # thread can make this difference negative.
        duration = max(timestamp - begin, 0.0)
        seconds = duration / (step.n_done - start) * (step.n_cells - step.n_done)
        endings = ", ".join(f"{name} {count}" for name, count in step.endings.items())
        cells = f"{step.n_done} of {step.n_cells} cells"
        status = f"{cells}  {endings}  {seconds:.0f} s left"
        self._progress.show(step.n_done / step.n_cells, status)


def print_sweep(result: "runs.SweepResult", *, json: bool) -> None:
    """Prints the report of a sweep, as text or JSON."""
    cells = runs.SweepStore.open(result.store).cells
    if json:
        assumptions = {"A": 1.0} if cells.spec.assumes_identity else {}
        print_json({**_as_json(result), "assumed": assumptions})
    else:
        _print(result, {"scores": ASSUMPTION} if cells.spec.assumes_identity else {})


def _as_json(result: "runs.SweepResult") -> dict[str, object]:
    return {
        "sweep": str(result.store),
        "cells": result.n_cells,
        "endings": result.endings,
        "axes": [
            {"name": axis.name, "scale": axis.scale, "values": list(axis.values)}
            for axis in result.axes
        ],
        "compilations": result.compilations,
        "seconds": result.seconds,
    }


def _print(result: "runs.SweepResult", assumptions: dict[str, str]) -> None:
    if result.n_cells <= MAX_ROWS:
        print_rows(_rows(result))
        sys.stdout.write("\n")
    print_rows(
        [
            {"ending": name, "cells": count, "share": f"{count / result.n_cells:.1%}"}
            for name, count in result.endings.items()
        ]
    )
    sizes = " × ".join(f"{len(axis.values)} {axis.name}" for axis in result.axes)
    print_pairs(
        assumptions
        | {
            "cells": f"{result.n_cells}: {sizes}",
            "compilations": result.compilations,
            "seconds": f"{result.seconds:.2f}",
            "table": result.store / "table.csv",
        }
    )
    if len(result.axes) <= 3:
        has_seeds = any(axis.name == "seed" for axis in result.axes)
        panel = "lines" if has_seeds and len(result.axes) > 1 else "phase"
        note(f"next: meanfield plot {result.store} --panel {panel}")


def _rows(result: "runs.SweepResult") -> list[Mapping[str, object]]:
    """Table rows with the ending of each cell."""
    data = runs.sweep_dataset(result.store)
    shape = [len(axis.labels) for axis in result.axes]
    rows: list[Mapping[str, object]] = []
    for places in np.ndindex(*shape):
        pairs = list(zip(result.axes, places, strict=True))
        cell = data.isel({axis.name: place for axis, place in pairs})
        rows.append(
            {axis.name: axis.labels[place] for axis, place in pairs}
            | {"ending": Status(int(cell["ending"])).ending}
            | {
                title: number(float(cell[name]), 4)
                for title, name in TABLE_COLUMNS.items()
            }
        )
    return rows
