"""The measurements of a statement: a table for each trial, notes on tolerances."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ._mathml import typeset
from ._numerals import finite, numeral
from ._statement_plots import plot
from ._verdicts import HOLDING, check_passed, is_finite, trial_passed

Record = Mapping[str, Any]

# For each role: the title of its trials, and the verdicts if they pass or do not.
_ROLES = {
    "statement": ("The claim", "holds", "does not hold"),
    "control": ("The control", "fails, as it must", "does not fail as it must"),
    "printed": ("As printed", "refuted, as it must be", "not refuted"),
    "corrected": ("As corrected, on the same data", "holds", "does not hold"),
}
_RELATION_SIGNS = {"<=": "≤", ">=": "≥", "=": "="}
_NEGATED_SIGNS = {"<=": "≰", ">=": "≱", "=": "≠"}
_SLACK = {"<=": "+ ", ">=": "− ", "=": "± "}  # how a tolerance widens a bound
_HEADS = ("measured", "observed", "", "bound", "tolerance", "tightness", "verdict")


def trials(statement: Record) -> str:
    """All trials of a statement with their evidence, then notes on tolerances."""
    notes = _notes(statement)
    parts = [_trial(statement, trial, notes) for trial in statement["trials"]]
    if not parts:
        parts = [f"<p>{verdict_mark(good=False, text='nothing was measured')}</p>"]
    entries = "".join(
        f"<li>({mark}) {typeset(why)}</li>" for why, mark in notes.items()
    )
    note_list = f'<h5>Tolerances</h5><ul class="notes">{entries}</ul>' if notes else ""
    return "".join(parts) + note_list


def verdict_mark(*, good: bool, text: str) -> str:
    """A verdict as HTML with sign, text and colour."""
    kind, sign = ("good", "✓") if good else ("bad", "✗")
    return f'<span class="{kind}"><span aria-hidden="true">{sign}</span> {text}</span>'


def _notes(statement: Record) -> dict[str, str]:
    """The derivations of tolerances, mapped to the letters that mark them."""
    checks = [check for trial in statement["trials"] for check in trial["checks"]]
    whys = dict.fromkeys(check["why"] for check in checks if check["why"])
    return {why: _letters(place) for place, why in enumerate(whys)}


def _letters(place: int) -> str:
    """The entry with index `place` of the sequence a, b, …, z, aa, ab, and so on."""
    quotient, last = divmod(place, 26)
    return (_letters(quotient - 1) if quotient else "") + chr(ord("a") + last)


def _trial(statement: Record, trial: Record, notes: Mapping[str, str]) -> str:
    role, good = trial["role"], trial_passed(trial)
    title, success, failure = _ROLES[role]
    text = (success if good else failure) if trial["checks"] else "not measured"
    parts = [f"<h5>{title} {verdict_mark(good=good, text=text)}</h5>"]
    if role == "control" and statement["control"]:
        text = statement["control"].removesuffix(".")
        parts.append(f"<p>{typeset(f'{text[0].upper()}{text[1:]}.')}</p>")
    if trial["error"]:
        error = f"<strong>Error:</strong> <code>{html.escape(trial['error'])}</code>"
        parts.append(f'<p class="error">{error}</p>')
    parts.append(_table(trial, notes) if trial["checks"] else "")
    plots = "".join(map(plot, trial["checks"]))
    parts.append(f'<div class="plots">{plots}</div>' if plots else "")
    parts.append(_witnesses(trial["checks"]))
    return f'<section class="trial {role}">{"".join(parts)}</section>'


def _table(trial: Record, notes: Mapping[str, str]) -> str:
    role = trial["role"]
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    heads = heads.replace('"col"></th>', '"col" aria-label="relation"></th>')
    rows = "".join(_row(check, role, notes) for check in trial["checks"])
    must = "hold" if role in HOLDING else "be violated by ten tolerances or more"
    return (
        f'<div class="scroll"><table><caption>Each must {must}.</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(check: Record, role: str, notes: Mapping[str, str]) -> str:
    good, mark = check_passed(check, role), notes.get(check["why"], "")
    slack = _SLACK.get(check["relation"], "") if check["tolerance"] else ""
    reason = f' <span class="soft">({mark})</span>' if mark else ""
    verdict = verdict_mark(good=good, text=_verdict_text(check, role))
    return (
        f'<tr><th scope="row">{typeset(check["label"])}</th>'
        f"<td>{_observed_numeral(check)}</td>"
        f'<td class="relation">{_relation_sign(check)}</td>'
        f"<td>{numeral(check['bound'])}</td>"
        f"<td>{slack}{numeral(check['tolerance'], digits=3)}{reason}</td>"
        f"<td>{_tightness(check['tightness'])}</td>"
        f'<td class="verdict">{verdict}</td></tr>'
    )


def _relation_sign(check: Record) -> str:
    """The relation of the observed value to its bound as a sign, such as ≤ or ≰."""
    signs = _RELATION_SIGNS if check_passed(check, "statement") else _NEGATED_SIGNS
    relation = str(check["relation"])
    return signs.get(relation, html.escape(relation))


def _observed_numeral(check: Record) -> str:
    """The observed value, with enough digits to show a difference from the bound."""
    value, bound = check["observed"], check["bound"]
    is_distinct = is_finite(check) and abs(value - bound) > check["tolerance"]
    return numeral(value, reference=bound if is_distinct else None)


def _verdict_text(check: Record, role: str) -> str:
    """The verdict on one check (holds or fails) or one control (violated or not)."""
    if role in HOLDING:
        return "holds" if check_passed(check, role) else "fails"
    if check_passed(check, role):
        return "violated"
    is_near = is_finite(check) and not check["holds"]
    return "violated by too little" if is_near else "not violated"


def _tightness(value: Any) -> str:
    """A ratio as HTML, with a bar that is full at one; a dash for None."""
    if value is None:
        return '<span class="soft">–</span>'
    share = min(max(value, 0.0), 1.0) if finite(value) else 0.0
    bar = f'<i class="bar" style="--share:{100 * share:.0f}%"></i>'
    return numeral(value) + bar


def _witnesses(checks: Sequence[Record]) -> str:
    """The points at which ascents ended, in a collapsible block."""
    parts = []
    for check in checks:
        witness = (check["evidence"] or {}).get("witness") or {}
        values = "\n".join(
            f"{name} = {_array(value)}" for name, value in witness.items()
        )
        if values:
            label = typeset(check["label"])
            parts.append(f"<p>{label}</p><pre>{html.escape(values)}</pre>")
    if not parts:
        return ""
    title = "<summary>Where the largest ratios were found</summary>"
    return f"<details>{title}{''.join(parts)}</details>"


def _array(value: Any, indent: str = "    ") -> str:
    """Nested lists as text, with six digits for each number."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    inner = [_array(entry, indent + " ") for entry in value]
    is_nested = any(isinstance(entry, list | tuple) for entry in value)
    separator = f",\n{indent}" if is_nested else ", "
    return f"[{separator.join(inner)}]"
