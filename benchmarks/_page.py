"""`docs/speed.md` from the results of a run."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ._cells import HEADS, cells, seconds, share, times_of
from ._derived import problem

Report = Mapping[str, Any]
Row = Mapping[str, Any]
HEAD = """\
# Speed

Written by `meanfield bench --docs` from the results of one run; nothing here is typed
by hand. `make bench` measures again.

Each row is a process of its own. *s* is the median wall time of repeated runs, *CPU s*
the median processor time of all cores together, *first s* what the first run takes
longer (compilation, mostly), *MB* by how much the peak of the process's memory grew
over all runs, compilation included. *ratio* is the time in units of the first method of
the same problem, *floor* the time that the machine's best rates of matrix products and
exponentials need for the same operations, as a share of the time taken. *scaled*: timed
at 10 000 queries, and multiplied.
"""


def page(report: Report) -> str:
    """The page."""
    sections = [_section(report, case) for case in report["cases"]]
    return "\n".join([HEAD, _machine(report), *sections, _growth(report["growth"])])


def machine_line(report: Report) -> str:
    """What was measured on, when."""
    machine = report["machine"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"device {machine['device']}, load {machine['load']} at the start; "
        f"{report['date']}, size {report['size']}"
    )


def peaks_line(best: Mapping[str, Mapping[str, float]]) -> str:
    """The floor's rates."""
    units = {"products": "GFLOP/s in matrix products", "exponentials": "Gexp/s"}
    said = [
        f"{best[kind][dtype] / 1e9:.3g} {unit} in {dtype}"
        for kind, unit in units.items()
        for dtype in sorted(best[kind])
    ]
    return f"floor: {'; '.join(said)}" if said else "floor: not measured"


def growth_line(each: Mapping[str, Any]) -> str:
    """How the time of one method grows."""
    named = [each["problem"]] if each["problem"] else []
    named += [f"d = {each['d']}, {each['dtype']}, {each['method']}"]
    sizes = ", ".join(str(n) for n in each["n"])
    return (
        f"{each['case']}: {', '.join(named)}: time grows like n^{each['slope']:.2f} "
        f"over n = {sizes}"
    )


def _machine(report: Report) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in report["machine"]["versions"].items())
    flags = report["machine"]["XLA_FLAGS"]
    said = f"; XLA_FLAGS={flags}" if flags else ""
    return (
        f"## The machine\n\n{machine_line(report)}{said}.\n\n{versions}.\n\n"
        f"{peaks_line(report['peaks'])}.\n{_remark(report)}"
    )


def _remark(report: Report) -> str:
    """What a person has added to the results by hand."""
    return f"\n*{report['remark']}*\n" if "remark" in report else ""


def _section(report: Report, case: str) -> str:
    rows = [row for row in report["rows"] if row["case"] == case]
    if not rows:
        return ""
    parts = [f"## {case}\n", report["cases"][case], ""]
    parts += [*_summary(rows), *_details(rows)]
    return "\n".join(parts)


def _summary(rows: Sequence[Row]) -> list[str]:
    """Methods by problems at their largest size, where there are several."""
    problems = _largest(rows)
    if len(problems) < 2 or rows[0]["case"] == "floor":
        return []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    at = {(problem(row), row["method"]): row for row in rows}
    table = [
        [method, *(_brief(at.get((each, method))) for each in problems)]
        for method in methods
    ]
    return _markdown(["method", *map(_titled, problems)], table)


def _largest(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The problems that no other differs from by more tokens alone."""
    found = list(dict.fromkeys(problem(row) for row in rows))
    most: dict[tuple[Any, ...], int] = {}
    for *same, n, d in found:
        most[*same, d] = max(n, most.get((*same, d), 0))
    return [each for each in found if most[*each[:-2], each[-1]] == each[-2]]


def _titled(key: tuple[Any, ...]) -> str:
    _, name, dtype, n, d = key
    return f"{name + ', ' if name else ''}{dtype}, n = {n}, d = {d}"


def _brief(row: Row | None) -> str:
    if row is None or row["status"] != "measured":
        return "–"
    also = [word for word in (times_of(row["ratio"]), share(row)) if word]
    scaled = ", scaled" if row["scaled"] else ""
    return f"{seconds(row['seconds'])} s ({', '.join(also)}{scaled})"


def _details(rows: Sequence[Row]) -> list[str]:
    found: list[str] = []
    for name, group in groupby(rows, lambda row: row["problem"]):
        found += [f"*{name}*\n"] if name else []
        found += _markdown(HEADS, [cells(row) for row in group])
    return found


def _growth(every: Sequence[Mapping[str, Any]]) -> str:
    if not every:
        return ""
    heads = ("case", "problem", "dtype", "d", "method", "sizes", "exponent")
    table = [
        [
            *(str(each[key]) for key in ("case", "problem", "dtype", "d", "method")),
            ", ".join(str(n) for n in each["n"]),
            f"{each['slope']:.2f}",
        ]
        for each in every
    ]
    said = "The exponent of `n` in the time, fitted to all sizes that were measured.\n"
    return "\n".join(["## Growth\n", said, *_markdown(heads, table)])


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = lambda row: f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
    return [line(heads), line(["---"] * len(heads)), *map(line, rows), ""]
