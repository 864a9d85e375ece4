"""Output of results to stdout, and of notes to stderr."""

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
    """Prints one JSON value; NaN and infinities become null."""
    text = json.dumps(finite(values), ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # stdout cannot encode a character of the text
        text = json.dumps(finite(values))
    sys.stdout.write(text + "\n")


def print_rows(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """Prints a table with a column for each key of the first row."""
    table = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for header in rows[0]:
        table.add_column(header.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*[plain(cell) for cell in row.values()])
    print_wide(table)


def print_wide(content: Table | str) -> None:
    """Prints a table or a text, 200 columns wide unless stdout is a terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(content, highlight=False, markup=False)


def print_entries(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints each row with its last cell on a line of its own.

    If stdout is not a terminal, the rows are printed as a table instead.
    """
    console = Console()
    if not console.is_terminal:
        print_rows(rows)
        return
    for row in rows:
        *firsts, last = map(plain, row.values())
        console.print(Text(" · ".join(firsts), style="bold"), highlight=False)
        console.print(Padding(Text(last), (0, 0, 0, 4)), highlight=False)


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Prints names and values in two aligned columns."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        sys.stdout.write(f"{name.replace('_', ' '):<{width}}  {plain(value)}\n")


def note(line: str) -> None:
    """Prints a line on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def note_step(number: int, total: int, name: str) -> None:
    """Prints a line on stderr with the number and name of the step that begins."""
    note(f"[{number}/{total}] {name}")


def number(value: float | None, digits: int = 6) -> str:
    """A number with `digits` significant digits; a dash for `None` and NaN."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}g}"


def plain(value: object) -> str:
    """A value as text: `yes` and `no`, a dash for `None`, lists with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        is_nested = any(isinstance(item, list | tuple) for item in value)
        return str(value) if is_nested else ", ".join(plain(item) for item in value)
    return "–" if value is None else str(value)


def finite(value: Any) -> Any:
    """JSON values with NaN and infinities replaced by `None`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
