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
    found = report["statements"]
    for paper in dict.fromkeys(each["paper"] for each in found):
        entries = [e for e in found if e["paper"] == paper and e["errata"]]
        if entries:
            parts.append(f"## {paper}\n")
            parts += [_entry(each) for each in sorted(entries, key=_place)]
    remarks = [e for e in found if e["remark"]]
    if remarks:
        parts.append("## Remarks: hypotheses and proofs\n")
        parts += [f"- `{e['id']}` ({e['source']}): {e['remark']}" for e in remarks]
    return "\n".join(parts) + "\n"


def _entry(each: Mapping[str, Any]) -> str:
    trials = {trial["role"]: trial for trial in each["trials"]}
    rows = [
        _row(role, check)
        for role in ("printed", "corrected")
        for check in trials.get(role, {"checks": []})["checks"]
    ]
    return "\n".join(
        [
            f"### {', '.join(each['errata'])} · {each['source']} · `{each['id']}`\n",
            f"Printed: {each['printed']}\n",
            f"True: {each['corrected']}\n",
            f"Counterexample: {each['counterexample']}\n",
            "| reading | measured | observed | claimed |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(role: str, check: Mapping[str, Any]) -> str:
    label = check["label"].replace("|", "\\|")
    sign = SIGNS[check["relation"]][0]
    observed = number(check["observed"], 3)
    return f"| {role} | {label} | {observed} | {sign} {against(check)} |"


def _place(each: Mapping[str, Any]) -> tuple[str, int]:
    """C2 before C12."""
    letters, digits = re.match(r"(\D*)(\d*)", each["errata"][0]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return letters, int(digits or 0)
