"""The page `docs/speed.md`, from the results of benchmark runs."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ._cells import HEADS, cells, seconds, share, times_of
from ._derived import compared_seconds, problem

Report = Mapping[str, Any]
Row = Mapping[str, Any]
HEAD = """\
# Speed

Written by `meanfield bench --docs` from the results of the runs in
`benchmarks/results/`; only the remarks are written by hand. `make bench` measures
again.

Each row is measured in its own process. *s* is the median wall time of repeated runs,
*CPU s* the median processor time of all cores, *first s* the additional time of the
first run (mostly compilation), and *MB* the growth of the peak memory of the process
over all runs, including compilation. *ratio* is the time divided by that of the first
method of the same problem (the processor time, for `latency`). *floor* is the time for
the same operations at the machine's best rates of matrix products and exponentials, as
a fraction of the measured time.
*scaled*: timed at 10 000 queries, and multiplied.
"""


def page(reports: Sequence[Report]) -> str:
    """The Markdown page with the results of all benchmark runs."""
    return "\n".join([HEAD, *map(_run, reports)])


def _run(report: Report) -> str:
    sections = [_section(report, case) for case in report["cases"]]
    return "\n".join([_machine(report), *sections, _growth(report["growth"])])


def machine_line(report: Report) -> str:
    """Machine, date and size of a report, on one line."""
    machine = report["machine"]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"device {machine['device']}, load {machine['load']} at the start; "
        f"{report['date']}, size {report['size']}"
    )


def peaks_line(best: Mapping[str, Mapping[str, float]]) -> str:
    """Peak rates of matrix products and exponentials, on one line."""
    units = {"products": "GFLOP/s in matrix products", "exponentials": "Gexp/s"}
    rates = [
        f"{best[kind][dtype] / 1e9:.3g} {unit} in {dtype}"
        for kind, unit in units.items()
        for dtype in sorted(best[kind])
    ]
    return f"floor: {'; '.join(rates)}" if rates else "floor: not measured"


def growth_line(entry: Mapping[str, Any]) -> str:
    """Growth of the time of one method with n, on one line."""
    parts = [entry["problem"]] if entry["problem"] else []
    parts += [f"d = {entry['d']}, {entry['dtype']}, {entry['method']}"]
    sizes = ", ".join(str(n) for n in entry["n"])
    return (
        f"{entry['case']}: {', '.join(parts)}: time grows like n^{entry['slope']:.2f} "
        f"over n = {sizes}"
    )


def _machine(report: Report) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in report["machine"]["versions"].items())
    flags = report["machine"]["XLA_FLAGS"]
    suffix = f"; XLA_FLAGS={flags}" if flags else ""
    processor, where = (report["machine"][key] for key in ("processor", "device"))
    accelerator = "" if where == "cpu" else f" with an {where}"
    return (
        f"## The machine of {report['date']}: {processor}{accelerator}\n\n"
        f"{machine_line(report)}{suffix}.\n\n{versions}.\n\n"
        f"{peaks_line(report['peaks'])}.\n{_remark(report)}"
    )


def _remark(report: Report) -> str:
    """Remark that was added to the results by hand, if any."""
    return f"\n*{report['remark']}*\n" if "remark" in report else ""


def _section(report: Report, case: str) -> str:
    rows = [row for row in report["rows"] if row["case"] == case]
    if not rows:
        return ""
    parts = [f"## {case}\n", report["cases"][case], ""]
    parts += [*_summary(rows), *_details(rows)]
    return "\n".join(parts)


def _summary(rows: Sequence[Row]) -> list[str]:
    """Table of methods by problem at the largest sizes; empty for a single problem."""
    problems = _largest(rows)
    if len(problems) < 2 or rows[0]["case"] == "floor":
        return []
    methods = list(dict.fromkeys(row["method"] for row in rows))
    at = {(problem(row), row["method"]): row for row in rows}
    table = [
        [method, *(_brief(at.get((entry, method))) for entry in problems)]
        for method in methods
    ]
    return _markdown(["method", *map(_titled, problems)], table)


def _largest(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Keys of the problems, without those that are also measured at a larger n."""
    problems = list(dict.fromkeys(problem(row) for row in rows))
    sizes: dict[tuple[Any, ...], int] = {}
    for *rest, n, d in problems:
        sizes[*rest, d] = max(n, sizes.get((*rest, d), 0))
    return [entry for entry in problems if sizes[*entry[:-2], entry[-1]] == entry[-2]]


def _titled(key: tuple[Any, ...]) -> str:
    _, name, dtype, n, d = key
    return f"{name + ', ' if name else ''}{dtype}, n = {n}, d = {d}"


def _brief(row: Row | None) -> str:
    if row is None or row["status"] != "measured":
        return "–"
    also = [word for word in (times_of(row["ratio"]), share(row)) if word]
    remark = ", scaled" if row["scaled"] else ""
    unit = "CPU s" if row.get("clock") == "cpu_seconds" else "s"
    return f"{seconds(compared_seconds(row))} {unit} ({', '.join(also)}{remark})"


def _details(rows: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    for name, group in groupby(rows, lambda row: row["problem"]):
        lines += [f"*{name}*\n"] if name else []
        lines += _markdown(HEADS, [cells(row) for row in group])
    return lines


def _growth(entries: Sequence[Mapping[str, Any]]) -> str:
    if not entries:
        return ""
    heads = ("case", "problem", "dtype", "d", "method", "sizes", "exponent")
    table = [
        [
            *(str(entry[key]) for key in ("case", "problem", "dtype", "d", "method")),
            ", ".join(str(n) for n in entry["n"]),
            f"{entry['slope']:.2f}",
        ]
        for entry in entries
    ]
    legend = "The exponent of `n` in the time, fitted to all measured sizes.\n"
    return "\n".join(["## Growth\n", legend, *_markdown(heads, table)])


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    line = lambda row: f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
    return [line(heads), line(["---"] * len(heads)), *map(line, rows), ""]
