"""Rows as people read them: numbers in few digits, and what goes with them."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
KNOWN = {
    *("case", "method", "maker", "package", "dtype", "n", "d", "problem", "queries"),
    *("buffers", "settings", "device", "scaled", "status", "reason", "seconds"),
    *("best_seconds", "cpu_seconds", "compile_seconds", "repeats", "memory", "error"),
    *("ratio", "floor_share", "products", "exponentials"),
}
HEADS = ("dtype", "n", "d", "method", "s", "CPU s", "first s", "MB", "error")
HEADS += ("ratio", "floor", "notes")


def cells(row: Row) -> tuple[str, ...]:
    """What `HEADS` names, of one row."""
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
    """Why nothing was measured."""
    return f"{row['status']}: {row['reason']}"


def seconds(value: float | None) -> str:
    """Seconds to three digits."""
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def times_of(ratio: float | None) -> str:
    """How many times as long as the first of its problem."""
    return "" if ratio is None else f"{ratio:.3g}×"


def share(row: Row) -> str:
    """The floor as a share of the time."""
    value = row["floor_share"]
    return "" if value is None else f"{100 * value:.0f} %"


def notes(row: Row) -> str:
    """What else a row says."""
    extras = [f"{key} {_short(row[key])}" for key in row if key not in KNOWN]
    return ", ".join([*(["scaled"] if row["scaled"] else []), *extras]).replace(
        "_", " "
    )


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
