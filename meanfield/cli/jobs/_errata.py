"""The list of what is false as printed, as Markdown made of measurements."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meanfield.cli.terminal._output import number
from meanfield.plotting import put

from ._statements import SIGNS, against

HEAD = """\
# What is false as printed

Written by `meanfield verify --size {size} --seed {seed} --errata FILE`; nothing here is
typed by hand. Each entry has the claim as printed, the corrected claim, and data on
which the first is violated and the second holds; `meanfield verify explain ID` measures
it again. Proofs that need mending, while their statement stands, are at the end.
"""


def save_errata(report: Mapping[str, Any], file: Path) -> Path:
    """Writes the errata of a report.

    Raises:
        ResourceError: if the file cannot be written; an old one then stays.
    """
    return put(file, errata_text(report).encode())


def errata_text(report: Mapping[str, Any]) -> str:
    """The Markdown."""
    parts = [HEAD.format(size=report["size"], seed=report["seed"])]
    statements = report["statements"]
    for paper in dict.fromkeys(statement["paper"] for statement in statements):
        entries = [e for e in statements if e["paper"] == paper and e["errata"]]
        if entries:
            parts.append(f"## {paper}\n")
            parts += [_entry(entry) for entry in sorted(entries, key=_place)]
    remarks = [e for e in statements if e["remark"]]
    if remarks:
        parts.append("## Remarks: hypotheses and proofs\n")
        parts += [f"- `{e['id']}` ({e['source']}): {e['remark']}" for e in remarks]
    return "\n".join(parts) + "\n"


def _entry(statement: Mapping[str, Any]) -> str:
    trials = {trial["role"]: trial for trial in statement["trials"]}
    rows = [
        _row(role, check)
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


def _row(role: str, check: Mapping[str, Any]) -> str:
    label = check["label"].replace("|", "\\|")
    sign = SIGNS[check["relation"]][0]
    value = number(check["observed"], 3)
    return f"| {role} | {label} | {value} | {sign} {against(check)} |"


def _place(statement: Mapping[str, Any]) -> tuple[str, int]:
    """C2 before C12."""
    letters, digits = re.match(r"(\D*)(\d*)", statement["errata"][0]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return letters, int(digits or 0)
