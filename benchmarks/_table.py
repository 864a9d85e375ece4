"""The tables that `meanfield bench` prints."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from ._cells import HEADS, cells
from ._page import growth_line, machine_line, peaks_line

WIDTH = 180  # width of the output in characters if stdout is not a terminal


def show(report: Mapping[str, Any]) -> None:
    """Prints a table for each case and problem, then growth, peak rates and machine."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    print_ = lambda content: console.print(content, highlight=False, markup=False)
    key = lambda row: (row["case"], row["problem"])
    for (case, problem), rows in groupby(report["rows"], key):
        title = f"{case} · {problem}" if problem else case
        table = Table(box=None, pad_edge=False, header_style="bold", title=title)
        table.title_justify = "left"
        for name in HEADS:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*cells(row))
        print_(table)
        print_("")
    for line in [growth_line(entry) for entry in report["growth"]]:
        print_(line)
    print_(peaks_line(report["peaks"]))
    print_(machine_line(report))
