"""One statement as an HTML article: claim, measurement, verdict."""

import html
from collections.abc import Mapping
from typing import Any

from meanfield.errors import InvalidInputError

from ._mathml import typeset
from ._statement_checks import trials, verdict_mark
from ._verdicts import kinds, statement_passed

Record = Mapping[str, Any]


def article(statement: Record, options: str = "") -> str:
    """The article of a statement, with anchors for its id and its aliases.

    Args:
        statement: one entry of a report.
        options: options of the command that repeats the measurement, with a leading
            space.

    Raises:
        InvalidInputError: if a formula cannot be typeset; the message names the
            statement.
    """
    try:
        return _article(statement, options)
    except InvalidInputError as error:
        raise InvalidInputError(f"Statement `{statement['id']}`: {error}") from error


def _article(statement: Record, options: str) -> str:
    name = html.escape(statement["id"])
    tags = " ".join(kinds(statement))
    parts = [
        f'<article id="{name}" data-kinds="{tags}">',
        _header(statement),
        f'<div class="claim scroll">{typeset(statement["claim"])}</div>',
        _facts(statement),
        _errata(statement),
        trials(statement),
        f"<footer><span>{statement['seconds']:.1f} s</span> "
        f"<code>meanfield verify {name}{html.escape(options)}</code></footer>",
        "</article>",
    ]
    return "\n".join(filter(None, parts))


def overall_verdict(statement: Record) -> str:
    """The verdict on a statement together with its control and printed version."""
    good = statement_passed(statement)
    text = "verified" if good else "not as it must be"
    return verdict_mark(good=good, text=text)


def errata_label(statement: Record) -> str:
    """The errata of a statement, such as `erratum C12`; empty if there are none."""
    if not statement["printed"]:
        return ""
    numbers = ", ".join(statement["errata"])
    word = "errata" if len(statement["errata"]) > 1 else "erratum"
    return html.escape(f"{word} {numbers}".strip())


def _header(statement: Record) -> str:
    name, label = html.escape(statement["id"]), errata_label(statement)
    anchors = "".join(f'<a id="{html.escape(a)}"></a>' for a in statement["aliases"])
    source = typeset(statement["source"])
    also = ", ".join(f"<code>{html.escape(a)}</code>" for a in statement["aliases"])
    badge = f' <span class="badge">{label}</span>' if label else ""
    return (
        f'<header><h4>{anchors}<a href="#{name}">{name}</a></h4>'
        f'<span class="ending">{overall_verdict(statement)}{badge}</span>'
        f'<p class="source">{source}{f"; also {also}" if also else ""}</p></header>'
    )


def _facts(statement: Record) -> str:
    """Hypotheses, protocol and remarks on a statement, as a description list."""
    rows = [
        ("Hypotheses", statement["hypotheses"]),
        ("Measured by", statement["protocol"]),
        ("Remark", statement["remark"]),
        ("Repeats", statement.get("repeats", "")),
    ]
    entries = "".join(
        f'<div><dt>{name}</dt><dd class="scroll">{typeset(text)}</dd></div>'
        for name, text in rows
        if text
    )
    return f'<dl class="facts">{entries}</dl>' if entries else ""


def _errata(statement: Record) -> str:
    """The printed and the corrected version in columns, and a counterexample."""
    if not statement["printed"]:
        return ""
    columns = "".join(
        f'<div class="{name}"><h5>{title}</h5>'
        f'<div class="scroll">{typeset(statement[name])}</div></div>'
        for name, title in (("printed", "Printed"), ("corrected", "Corrected"))
    )
    data = statement["counterexample"]
    example = f"<p><strong>Counterexample.</strong> {typeset(data)}</p>" if data else ""
    return (
        f'<section class="errata" aria-label="{errata_label(statement)}">'
        f'<div class="columns">{columns}</div>'
        f"{example}</section>"
    )
