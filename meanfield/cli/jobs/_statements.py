"""What `verify` shows: a table of statements, or all about one."""

import sys
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from meanfield.cli.terminal._output import number

SIGNS = {"<=": "≤≰", ">=": "≥≱", "=": "=≠"}  # as claimed, and where it fails


def table(report: Mapping[str, Any]) -> None:
    """The statements by paper and group, on stdout."""
    console = Console()
    if not console.is_terminal:
        console.width = 200
    key = lambda each: (each["paper"], each["group"])
    ranked = sorted(report["statements"], key=lambda each: each["paper"])
    for (paper, group), rows in groupby(ranked, key):
        shown = Table(
            box=None, pad_edge=False, header_style="bold", title_justify="left"
        )
        shown.title = f"{paper} · {group}"
        for name in ("statement", "verdict", "observed", "tightness", "control", "s"):
            shown.add_column(name, overflow="fold")
        for each in rows:
            shown.add_row(*_row(each))
        console.print(shown, highlight=False, markup=False)
        console.print()
    console.print(_summary(report), highlight=False, markup=False)


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    trials = {trial["role"]: trial for trial in each["trials"]}
    best = _telling(trials["statement"])
    tight = "" if best is None else number(best["tightness"], 4)
    erratum = ", ".join(each["errata"])
    verdict = each["verdict"] + (f", print false ({erratum})" if erratum else "")
    control = _telling(trials["control"])
    return (
        each["id"],
        verdict,
        trials["statement"]["error"] or _compared(best),
        tight,
        trials["control"]["error"] or _compared(control),
        f"{each['seconds']:.1f}",
    )


def _telling(trial: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The check nearest to its bound: the tightest inequality, or the largest error."""
    checks = trial["checks"]
    tight = [check for check in checks if check["tightness"] is not None]
    if tight:
        return max(tight, key=lambda check: check["tightness"])
    share = lambda check: (
        abs(check["observed"] - check["bound"]) / (check["tolerance"] or 1)
    )
    return max(checks, key=share, default=None)


def _compared(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return ""
    sign = SIGNS[check["relation"]][not check["holds"]]
    return f"{check['label']}: {number(check['observed'], 4)} {sign} {against(check)}"


def against(check: Mapping[str, Any]) -> str:
    """What an observation is held against: an error against its tolerance alone."""
    bound, slack = check["bound"], check["tolerance"]
    if check["relation"] == "<=" and bound == 0 and slack:
        return number(slack, 2)
    return number(bound, 4) + (f" ± {number(slack, 2)}" if slack else "")


def _summary(report: Mapping[str, Any]) -> str:
    found = report["statements"]
    good = sum(each["passed"] for each in found)
    printed = [each for each in found if each["errata"]]
    return (
        f"{good} of {len(found)} statements hold and their controls fail; "
        f"{len(printed)} are false as printed, with a counterexample each; "
        f"size {report['size']}, seed {report['seed']}, {report['dtype']}"
    )


def explain(report: Mapping[str, Any]) -> None:
    """All about the one statement of a report, on stdout."""
    (each,) = report["statements"]
    out = sys.stdout.write
    names = ", ".join([each["id"], *each["aliases"]])
    out(f"{names}\n{each['paper']}, {each['source']} · {each['group']}\n")
    for title in ("claim", "hypotheses", "protocol", "remark"):
        if each[title]:
            out(f"\n{title}\n  {each[title]}\n")
    if each["errata"]:
        out(f"\nerratum {', '.join(each['errata'])}\n  printed: {each['printed']}\n")
        out(f"  true: {each['corrected']}\n")
        out(f"  counterexample: {each['counterexample']}\n")
    out(f"\ncontrol\n  {each['control']}\n")
    for trial in each["trials"]:
        went = "as it must" if trial["passed"] else "NOT as it must"
        out(f"\n{trial['role']}: {went} {trial['error']}".rstrip() + "\n")
        for why, checks in groupby(trial["checks"], lambda check: check["why"]):
            out("".join(f"  {_compared(check)}\n" for check in checks))
            out(f"    tolerance: {why}\n")
    out(f"\nverdict: {each['verdict']}, in {each['seconds']} s\n")
