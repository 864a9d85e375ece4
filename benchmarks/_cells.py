"""Formatting of result rows as table cells."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
KNOWN = {
    *("case", "method", "maker", "package", "dtype", "n", "d", "problem", "queries"),
    *("buffers", "settings", "device", "clock", "scaled", "status", "reason"),
    *("seconds", "best_seconds", "cpu_seconds", "compile_seconds", "repeats"),
    *("memory", "error", "ratio", "floor_share", "products", "exponentials"),
}
HEADS = ("dtype", "n", "d", "method", "s", "CPU s", "first s", "MB", "error")
HEADS += ("ratio", "floor", "notes")


def cells(row: Row) -> tuple[str, ...]:
    """Table cells of a result row, one for each column heading in `HEADS`."""
    labels = (row["dtype"], str(row["n"]), str(row["d"]), row["method"])
    if row["status"] != "measured":
        return (*labels, *[""] * (len(HEADS) - len(labels) - 1), reason(row))
    keys = ("seconds", "cpu_seconds", "compile_seconds")
    times = [seconds(row[key]) for key in keys]
    error = "" if row.get("error") is None else f"{row['error']:.1e}"
    rest = (
        f"{row['memory']:.0f}",
        error,
        times_of(row["ratio"]),
        share(row),
        notes(row),
    )
    return (*labels, *times, *rest)


def reason(row: Row) -> str:
    """Status of a trial that was not measured, such as `skipped`, and the reason."""
    return f"{row['status']}: {row['reason']}"


def seconds(value: float | None) -> str:
    """Seconds with three significant digits; empty for `None`."""
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def times_of(ratio: float | None) -> str:
    """Time relative to the time of the first method, as text; empty for `None`."""
    return "" if ratio is None else f"{ratio:.3g}×"


def share(row: Row) -> str:
    """Lower bound on the time, in percent of the measured time; empty if unknown."""
    value = row["floor_share"]
    return "" if value is None else f"{100 * value:.0f} %"


def notes(row: Row) -> str:
    """Facts of a result row that have no column of their own, as text."""
    extras = [f"{key} {_short(row[key])}" for key in row if key not in KNOWN]
    return ", ".join([*(["scaled"] if row["scaled"] else []), *extras]).replace(
        "_", " "
    )


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
