"""Quantities derived from measured times: peak rates, lower bounds, ratios, growth."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from .floor import PRODUCT

Row = Mapping[str, Any]
Peaks = dict[str, dict[str, float]]


def peaks(rows: Sequence[Row], cores: int) -> Peaks:
    """Largest measured number of operations per second, by operation and dtype.

    The rate of exponentials is measured in processor time on one core, and multiplied
    by the number of cores. It is unknown for an accelerator.
    """
    rates: Peaks = {"products": {}, "exponentials": {}}
    for row in rows:
        if row["case"] != "floor" or row["status"] != "measured":
            continue
        if row["problem"] == PRODUCT:
            kind, rate = "products", row["products"] / row["best_seconds"]
        elif row["device"] == "cpu":
            kind = "exponentials"
            rate = cores * row["exponentials"] / _seconds_of_one_core(row)
        else:
            continue
        best = rates[kind].get(row["dtype"], 0.0)
        rates[kind][row["dtype"]] = max(best, rate)
    return rates


def _seconds_of_one_core(row: Row) -> float:
    """Processor time, or wall time if the processor time is implausibly small.

    Some systems update the processor time of a thread with a delay.
    """
    known = row["cpu_seconds"] > row["seconds"] / 2
    return row["cpu_seconds"] if known else row["seconds"]


def floor_seconds(row: Row, best: Peaks) -> float | None:
    """Lower bound on the time of the operations counted in a row; `None` if unknown."""
    kinds = [kind for kind in best if row.get(kind)]
    kinds_of_dtype = [kind for kind in kinds if row["dtype"] in best[kind]]
    if row["case"] == "floor" or not kinds or kinds_of_dtype != kinds:
        return None
    return sum(row[kind] / best[kind][row["dtype"]] for kind in kinds)


def with_ratios(rows: Sequence[Row], best: Peaks) -> list[dict[str, Any]]:
    """Adds two ratios to each row.

    One is the time, by the trial's clock, divided by the first method's. The other is
    the lower bound divided by the wall time.
    """
    entries = []
    for _, group in groupby(rows, problem):
        members = list(group)
        first = compared_seconds(members[0])
        for row in members:
            compared = compared_seconds(row)
            ratio = compared / first if compared and first else None
            seconds, least = row.get("seconds"), floor_seconds(row, best)
            share = least / seconds if seconds and least else None
            entries.append({**row, "ratio": ratio, "floor_share": share})
    return entries


def compared_seconds(row: Row) -> float | None:
    """Time by which a row is compared with others; `None` if it was not measured.

    It is the wall time in results that do not name a clock.
    """
    return row.get(row.get("clock", "seconds"))


def problem(row: Row) -> tuple[Any, ...]:
    """Key of the problem to which a row belongs; rows with equal keys are compared."""
    return tuple(row[key] for key in ("case", "problem", "dtype", "n", "d"))


def growth(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Fitted exponents p of times that grow like n^p, for methods with several n."""
    keys = ("case", "problem", "dtype", "d", "method")
    family = lambda row: tuple(row[key] for key in keys)
    timings = [row for row in rows if row.get("seconds") and row["case"] != "floor"]
    entries = []
    for values, group in groupby(sorted(timings, key=family), family):
        points = sorted((row["n"], row["seconds"]) for row in group)
        if len(points) > 1:
            fit = {"n": [n for n, _ in points], "slope": _slope(points)}
            entries.append({**dict(zip(keys, values, strict=True)), **fit})
    return entries


def _slope(points: Sequence[tuple[int, float]]) -> float:
    logs = np.log(np.asarray(points, float))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
