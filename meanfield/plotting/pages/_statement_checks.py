"""The measurements of a statement: one table for each role, notes on the tolerances."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ._mathml import typeset
from ._numerals import finite, numeral
from ._statement_plots import plot
from ._verdicts import HOLDING, check_passed, trial_passed

Record = Mapping[str, Any]

_TITLES = {
    "statement": "The claim",
    "control": "The control",
    "printed": "As printed",
    "corrected": "As corrected, on the same data",
}
_RULES = {
    "statement": "Each must hold.",
    "control": "Each must be violated by ten tolerances or more.",
    "printed": "Each must be violated by ten tolerances or more.",
    "corrected": "Each must hold.",
}
_VERDICTS = {
    "statement": ("holds", "does not hold"),
    "control": ("fails, as it must", "does not fail as it must"),
    "printed": ("refuted, as it must be", "not refuted"),
    "corrected": ("holds", "does not hold"),
}
_CLAIMED = {"<=": "≤", ">=": "≥", "=": "="}
_BROKEN = {"<=": "≰", ">=": "≱", "=": "≠"}
_SLACK = {"<=": "+ ", ">=": "− ", "=": "± "}  # how a tolerance widens a bound
_HEADS = ("measured", "observed", "", "bound", "tolerance", "tightness", "verdict")


def trials(statement: Record) -> str:
    """All roles of a statement with their evidence, then why the tolerances."""
    notes = _notes(statement)
    parts = [_trial(statement, trial, notes) for trial in statement["trials"]]
    if not parts:
        parts = [f"<p>{verdict_mark(good=False, words='nothing was measured')}</p>"]
    items = "".join(f"<li>({mark}) {typeset(why)}</li>" for why, mark in notes.items())
    listed = f'<h5>Tolerances</h5><ul class="notes">{items}</ul>' if notes else ""
    return "".join(parts) + listed


def verdict_mark(*, good: bool, words: str) -> str:
    """A verdict with its sign, its words and its colour."""
    kind, sign = ("good", "✓") if good else ("bad", "✗")
    return f'<span class="{kind}"><span aria-hidden="true">{sign}</span> {words}</span>'


def _notes(statement: Record) -> dict[str, str]:
    """Derivations of tolerances, each once, by the letter that marks it."""
    checks = [check for trial in statement["trials"] for check in trial["checks"]]
    whys = dict.fromkeys(check["why"] for check in checks if check["why"])
    return {why: _letters(place) for place, why in enumerate(whys)}


def _letters(place: int) -> str:
    """The place in a, b, …, z, aa, ab, and so on."""
    before, last = divmod(place, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + last)


def _trial(statement: Record, trial: Record, notes: Mapping[str, str]) -> str:
    role, good = trial["role"], trial_passed(trial)
    words = _VERDICTS[role][0 if good else 1] if trial["checks"] else "not measured"
    verdict = verdict_mark(good=good, words=words)
    parts = [f"<h5>{_TITLES[role]} {verdict}</h5>"]
    if role == "control" and statement["control"]:
        parts.append(f"<p>{_sentence(statement['control'])}</p>")
    if trial["error"]:
        error = html.escape(trial["error"])
        parts.append(
            f'<p class="error"><strong>Error:</strong> <code>{error}</code></p>'
        )
    parts.append(_table(trial, notes) if trial["checks"] else "")
    plots = "".join(map(plot, trial["checks"]))
    parts.append(f'<div class="plots">{plots}</div>' if plots else "")
    parts.append(_witnesses(trial["checks"]))
    return f'<section class="trial {role}">{"".join(parts)}</section>'


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return typeset(f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}")


def _table(trial: Record, notes: Mapping[str, str]) -> str:
    role = trial["role"]
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    heads = heads.replace('"col"></th>', '"col" aria-label="relation"></th>')
    rows = "".join(_row(check, role, notes) for check in trial["checks"])
    return (
        f'<div class="scroll"><table><caption>{_RULES[role]}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(check: Record, role: str, notes: Mapping[str, str]) -> str:
    good, relation = check_passed(check, role), check["relation"]
    mark = notes.get(check["why"], "")
    cells = [
        ("", _observed(check)),
        ("relation", _related(check)),
        ("", numeral(check["bound"])),
        (
            "",
            (_SLACK.get(relation, "") if check["tolerance"] else "")
            + numeral(check["tolerance"], digits=3)
            + (f' <span class="soft">({mark})</span>' if mark else ""),
        ),
        ("", _tightness(check["tightness"])),
        ("verdict", verdict_mark(good=good, words=_seen(check, role))),
    ]
    data = "".join(
        f'<td class="{kind}">{cell}</td>' if kind else f"<td>{cell}</td>"
        for kind, cell in cells
    )
    return f'<tr><th scope="row">{typeset(check["label"])}</th>{data}</tr>'


def _related(check: Record) -> str:
    """How the number stands to its bound, widened by the tolerance."""
    signs = _CLAIMED if check_passed(check, "statement") else _BROKEN
    relation = str(check["relation"])
    return signs.get(relation, html.escape(relation))


def _observed(check: Record) -> str:
    """The number, with digits enough to tell it from the bound where that matters."""
    observed, bound, tolerance = (check[n] for n in ("observed", "bound", "tolerance"))
    known = all(map(finite, (observed, bound, tolerance)))
    apart = known and abs(observed - bound) > tolerance
    return numeral(observed, apart_from=bound if apart else None)


def _seen(check: Record, role: str) -> str:
    """What the numbers say: a claim held or broken, a control broken or not."""
    if role in HOLDING:
        return "holds" if check_passed(check, role) else "fails"
    if check_passed(check, role):
        return "violated"
    numbers = all(finite(check[n]) for n in ("observed", "bound", "tolerance"))
    return (
        "violated by too little" if numbers and not check["holds"] else "not violated"
    )


def _tightness(value: Any) -> str:
    """A ratio with a bar under it that is full at one; a dash where there is none."""
    if value is None:
        return '<span class="soft">–</span>'
    share = min(max(value, 0.0), 1.0) if finite(value) else 0.0
    bar = f'<i class="bar" style="--share:{100 * share:.0f}%"></i>'
    return numeral(value) + bar


def _witnesses(checks: Sequence[Record]) -> str:
    """Where ascents ended, as numbers that open on demand."""
    parts = []
    for check in checks:
        found = (check["evidence"] or {}).get("witness") or {}
        values = "\n".join(f"{name} = {_array(value)}" for name, value in found.items())
        if values:
            label = typeset(check["label"])
            parts.append(f"<p>{label}</p><pre>{html.escape(values)}</pre>")
    if not parts:
        return ""
    title = "<summary>Where the largest ratios were found</summary>"
    return f"<details>{title}{''.join(parts)}</details>"


def _array(value: Any, indent: str = "    ") -> str:
    """Nested lists as rows of numbers, six digits each."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    inner = [_array(each, indent + " ") for each in value]
    nested = any(isinstance(each, list | tuple) for each in value)
    between = f",\n{indent}" if nested else ", "
    return f"[{between.join(inner)}]"
