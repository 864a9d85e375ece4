"""Output of `verify`: a table, the details of one statement, or the errata."""

import re
import sys
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from meanfield import plotting
from meanfield.cli.terminal._output import number, print_rows, print_wide

HEAD = """\
# What is false as printed

Written by `meanfield verify --size {size} --seed {seed} --errata FILE`; nothing here is
typed by hand. Each entry has the claim as printed, the corrected claim, and data on
which the first is violated and the second holds; `meanfield verify explain ID` measures
it again. Proofs that need mending, while their statement stands, are at the end.
"""
SIGNS = {"<=": "≤≰", ">=": "≥≱", "=": "=≠"}  # signs if the relation holds, and if not


def table(report: Mapping[str, Any]) -> None:
    """Prints the statements by paper and group."""
    statements = sorted(report["statements"], key=itemgetter("paper"))
    for (paper, group), rows in groupby(statements, itemgetter("paper", "group")):
        print_rows(list(map(_row, rows)), title=f"{paper} · {group}")
        sys.stdout.write("\n")
    print_wide(_summary(report))


def _row(statement: Mapping[str, Any]) -> dict[str, str]:
    trials = {trial["role"]: trial for trial in statement["trials"]}
    check, control = map(_decisive_check, (trials["statement"], trials["control"]))
    erratum = ", ".join(statement["errata"])
    verdict = statement["verdict"] + (f", print false ({erratum})" if erratum else "")
    verdict += f", as {statement['repeats']}" if statement["repeats"] else ""
    return {
        "statement": statement["id"],
        "verdict": verdict,
        "observed": trials["statement"]["error"] or _observation(check),
        "tightness": "" if check is None else number(check["tightness"], 4),
        "control": trials["control"]["error"] or _observation(control),
        "s": f"{statement['seconds']:.1f}",
    }


def _decisive_check(trial: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The check with the tightest inequality; without inequalities, the largest error.

    If any checks have the wrong outcome, only these are considered.
    """
    right = "holds" if trial["role"] == "statement" else "is_violated"
    wrong = [check for check in trial["checks"] if not check[right]]
    checks = wrong or trial["checks"]
    inequalities = [check for check in checks if check["tightness"] is not None]
    if inequalities:
        return max(inequalities, key=lambda check: check["tightness"])
    errors = [abs(check["observed"] - check["bound"]) for check in checks]
    shares = [e / (c["tolerance"] or 1) for e, c in zip(errors, checks, strict=True)]
    return checks[shares.index(max(shares))] if checks else None


def _observation(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return ""
    sign = SIGNS[check["relation"]][not check["holds"]]
    return (
        f"{check['label']}: {number(check['observed'], 4)} {sign} {format_bound(check)}"
    )


def format_bound(check: Mapping[str, Any]) -> str:
    """The bound of a check with its tolerance; only the tolerance if the bound is 0."""
    bound, slack = check["bound"], check["tolerance"]
    if check["relation"] == "<=" and bound == 0 and slack:
        return number(slack, 2)
    return number(bound, 4) + (f" ± {number(slack, 2)}" if slack else "")


def _summary(report: Mapping[str, Any]) -> str:
    statements = report["statements"]
    n_passed = sum(statement["has_passed"] for statement in statements)
    misprints = [statement for statement in statements if statement["errata"]]
    n_repeats = sum(bool(statement["repeats"]) for statement in statements)
    repeat_note = (
        f"{n_repeats} of them repeat another on other draws; " if n_repeats else ""
    )
    return (
        f"{n_passed} of {len(statements)} statements hold and their controls fail; "
        f"{repeat_note}{len(misprints)} false as printed, with a counterexample each; "
        f"size {report['size']}, seed {report['seed']}, {report['dtype']}"
    )


def explain(report: Mapping[str, Any]) -> None:
    """Prints the details of the one statement of a report."""
    (statement,) = report["statements"]
    write = sys.stdout.write
    names = ", ".join([statement["id"], *statement["aliases"]])
    write(
        f"{names}\n{statement['paper']}, {statement['source']} · {statement['group']}\n"
    )
    for title in ("claim", "hypotheses", "protocol", "remark", "repeats"):
        if statement[title]:
            write(f"\n{title}\n  {statement[title]}\n")
    if statement["errata"]:
        write(
            f"\nerratum {', '.join(statement['errata'])}\n"
            f"  printed: {statement['printed']}\n"
        )
        write(f"  true: {statement['corrected']}\n")
        write(f"  counterexample: {statement['counterexample']}\n")
    write(f"\ncontrol\n  {statement['control']}\n")
    for trial in statement["trials"]:
        outcome = "as expected" if trial["has_passed"] else "NOT as expected"
        write(f"\n{trial['role']}: {outcome} {trial['error']}".rstrip() + "\n")
        for reason, checks in groupby(trial["checks"], lambda check: check["why"]):
            write("".join(f"  {_observation(check)}\n" for check in checks))
            write(f"    tolerance: {reason}\n")
    write(f"\nverdict: {statement['verdict']}, in {statement['seconds']} s\n")


def save_errata(report: Mapping[str, Any], file: Path) -> Path:
    """Writes the errata of a report.

    Raises:
        ResourceError: if the file cannot be written; an old file is then kept.
    """
    return plotting.write_file(file, errata_text(report).encode())


def errata_text(report: Mapping[str, Any]) -> str:
    """The errata of a report as Markdown."""
    parts = [HEAD.format(size=report["size"], seed=report["seed"])]
    statements = report["statements"]
    for paper in dict.fromkeys(statement["paper"] for statement in statements):
        entries = [e for e in statements if e["paper"] == paper and e["errata"]]
        if entries:
            parts.append(f"## {paper}\n")
            parts += [_erratum(entry) for entry in sorted(entries, key=_place)]
    remarks = [e for e in statements if e["remark"]]
    if remarks:
        parts.append("## Remarks: hypotheses and proofs\n")
        parts += [f"- `{e['id']}` ({e['source']}): {e['remark']}" for e in remarks]
    return "\n".join(parts) + "\n"


def _erratum(statement: Mapping[str, Any]) -> str:
    trials = {trial["role"]: trial for trial in statement["trials"]}
    rows = [
        _measurement(role, check)
        for role in ("printed", "corrected")
        for check in trials.get(role, {"checks": []})["checks"]
    ]
    errata = ", ".join(statement["errata"])
    return "\n".join(
        [
            f"### {errata} · {statement['source']} · `{statement['id']}`\n",
            f"Printed: {statement['printed']}\n",
            f"True: {statement['corrected']}\n",
            f"Counterexample: {statement['counterexample']}\n",
            "| reading | measured | observed | claimed |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _measurement(role: str, check: Mapping[str, Any]) -> str:
    label = check["label"].replace("|", "\\|")
    sign = SIGNS[check["relation"]][0]
    value = number(check["observed"], 3)
    return f"| {role} | {label} | {value} | {sign} {format_bound(check)} |"


def _place(statement: Mapping[str, Any]) -> tuple[str, int]:
    """Sort key of a statement by its first erratum: C2 before C12."""
    letters, digits = re.match(r"(\D*)(\d*)", statement["errata"][0]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return letters, int(digits or 0)
