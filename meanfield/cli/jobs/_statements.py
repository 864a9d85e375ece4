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
    key = lambda statement: (statement["paper"], statement["group"])
    statements = sorted(report["statements"], key=lambda statement: statement["paper"])
    for (paper, group), rows in groupby(statements, key):
        sheet = Table(
            box=None, pad_edge=False, header_style="bold", title_justify="left"
        )
        sheet.title = f"{paper} · {group}"
        for name in ("statement", "verdict", "observed", "tightness", "control", "s"):
            sheet.add_column(name, overflow="fold")
        for statement in rows:
            sheet.add_row(*_row(statement))
        console.print(sheet, highlight=False, markup=False)
        console.print()
    console.print(_summary(report), highlight=False, markup=False)


def _row(statement: Mapping[str, Any]) -> tuple[str, ...]:
    trials = {trial["role"]: trial for trial in statement["trials"]}
    check = _telling(trials["statement"])
    tightness = "" if check is None else number(check["tightness"], 4)
    erratum = ", ".join(statement["errata"])
    verdict = statement["verdict"] + (f", print false ({erratum})" if erratum else "")
    verdict += f", as {statement['repeats']}" if statement["repeats"] else ""
    control = _telling(trials["control"])
    return (
        statement["id"],
        verdict,
        trials["statement"]["error"] or _compared(check),
        tightness,
        trials["control"]["error"] or _compared(control),
        f"{statement['seconds']:.1f}",
    )


def _telling(trial: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The tightest inequality, or largest error, of what went wrong, else of all."""
    right = "holds" if trial["role"] == "statement" else "violated"
    wrong = [check for check in trial["checks"] if not check[right]]
    checks = wrong or trial["checks"]
    inequalities = [check for check in checks if check["tightness"] is not None]
    if inequalities:
        return max(inequalities, key=lambda check: check["tightness"])
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
    statements = report["statements"]
    n_passed = sum(statement["passed"] for statement in statements)
    misprints = [statement for statement in statements if statement["errata"]]
    repeated = sum(bool(statement["repeats"]) for statement in statements)
    again = f"{repeated} of them repeat another on other draws; " if repeated else ""
    return (
        f"{n_passed} of {len(statements)} statements hold and their controls fail; "
        f"{again}"
        f"{len(misprints)} are false as printed, with a counterexample each; "
        f"size {report['size']}, seed {report['seed']}, {report['dtype']}"
    )


def explain(report: Mapping[str, Any]) -> None:
    """All about the one statement of a report, on stdout."""
    (statement,) = report["statements"]
    out = sys.stdout.write
    names = ", ".join([statement["id"], *statement["aliases"]])
    out(
        f"{names}\n{statement['paper']}, {statement['source']} · {statement['group']}\n"
    )
    for title in ("claim", "hypotheses", "protocol", "remark", "repeats"):
        if statement[title]:
            out(f"\n{title}\n  {statement[title]}\n")
    if statement["errata"]:
        out(
            f"\nerratum {', '.join(statement['errata'])}\n"
            f"  printed: {statement['printed']}\n"
        )
        out(f"  true: {statement['corrected']}\n")
        out(f"  counterexample: {statement['counterexample']}\n")
    out(f"\ncontrol\n  {statement['control']}\n")
    for trial in statement["trials"]:
        outcome = "as it must" if trial["passed"] else "NOT as it must"
        out(f"\n{trial['role']}: {outcome} {trial['error']}".rstrip() + "\n")
        for reason, checks in groupby(trial["checks"], lambda check: check["why"]):
            out("".join(f"  {_compared(check)}\n" for check in checks))
            out(f"    tolerance: {reason}\n")
    out(f"\nverdict: {statement['verdict']}, in {statement['seconds']} s\n")
