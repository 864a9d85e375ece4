"""Results to stdout, and single lines to stderr."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


def print_json(values: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON value, and nothing else, on stdout; NaN and infinities are null."""
    text = json.dumps(finite(values), ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # stdout cannot show all of its characters
        text = json.dumps(finite(values))
    sys.stdout.write(text + "\n")


def print_rows(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """A table on stdout, a column for each key of the first row."""
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for header in rows[0]:
        table.add_column(header.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*[plain(cell) for cell in row.values()])
    print_wide(table)


def print_wide(content: Table | str) -> None:
    """A table or a text on stdout; for other programs, one row is one line."""
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(content, highlight=False, markup=False)


def print_entries(rows: Sequence[Mapping[str, Any]]) -> None:
    """On a terminal the last cell of each row stands below the others; else a table."""
    console = Console()
    if not console.is_terminal:
        print_rows(rows)
        return
    for row in rows:
        *firsts, last = map(plain, row.values())
        console.print(Text(" · ".join(firsts), style="bold"), highlight=False)
        console.print(Padding(Text(last), (0, 0, 0, 4)), highlight=False)


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Names and values, aligned, on stdout."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        sys.stdout.write(f"{name.replace('_', ' '):<{width}}  {plain(value)}\n")


def note(line: str) -> None:
    """A line on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def note_step(number: int, total: int, name: str) -> None:
    """A line on stderr that says which of several steps begins."""
    note(f"[{number}/{total}] {name}")


def number(value: float | None, digits: int = 6) -> str:
    """A number for people; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}g}"


def plain(value: object) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        is_nested = any(isinstance(item, list | tuple) for item in value)
        return str(value) if is_nested else ", ".join(plain(item) for item in value)
    return "–" if value is None else str(value)


def finite(value: Any) -> Any:
    """JSON values in which NaN and infinities are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
