"""A verification of statements as a self-contained HTML page."""

import html
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from meanfield._stored_names import rename_keys
from meanfield.errors import InvalidInputError

from ._statement_article import article, errata_label
from ._statement_checks import verdict_mark
from ._verdicts import kinds, statement_passed, tally
from ._writing import fill_template, page_file, source, write_page

Record = Mapping[str, Any]

_PROJECT_KEY = "new"
_TITLES = {
    "castin2025": (
        "Castin, Ablin, Carrillo, Peyré",
        "A unified perspective on the dynamics of deep transformers",
    ),
    "sander2022": ("Sander, Ablin, Blondel, Peyré", "Sinkformers"),
    "uw2023": ("University of Washington", "slides on Sinkformers"),
    "tay2020": ("Tay et al.", "Sparse Sinkhorn Attention"),
    "shahbazi2025": ("Shahbazi et al.", "ESPFormer"),
    _PROJECT_KEY: ("This project", "formulas of its own, derived in its documents"),
}
_COUNTS = (
    ("statement", "statements hold"),
    ("control", "controls fail, as they must"),
    ("printed", "printed claims are refuted"),
    ("corrected", "corrections hold on the same data"),
)


def save_statements_page(report: Record, path: str | Path) -> Path:
    """Write `statements_page(report)` to `path`; `.html` is added if it has no suffix.

    Raises:
        InvalidInputError: if `path` has another suffix, or as raised by
            `statements_page`.
        ResourceError: if the file cannot be written.

    Examples:
        >>> from meanfield.plotting import save_statements_page
        >>> from meanfield.theorems import report, verify_statement
        >>> verified = report([verify_statement("castin2025:eq-2.2")], "quick", 0)
        >>> save_statements_page(verified, "lemmas").name
        'lemmas.html'
    """
    file = page_file(path)
    return write_page(file, statements_page(report))


def statements_page(report: Record) -> str:
    """An HTML document with the statements of a report, their numbers and verdicts.

    It contains its style and script, formulas as MathML and plots as SVG, and needs no
    network. A check with a number that is not finite fails, whatever the report says.

    Args:
        report: the return value of `meanfield.theorems.report`, or its JSON; reports
            of version 0.2 are accepted, too.

    Raises:
        InvalidInputError: if the report has no list of statements, or a formula cannot
            be typeset; the message names the statement.

    Examples:
        >>> from meanfield.plotting import statements_page
        >>> from meanfield.theorems import report, verify_statement
        >>> verified = report([verify_statement("castin2025:eq-2.2")], "quick", 0)
        >>> "castin2025:eq-2.2" in statements_page(verified)
        True
    """
    report = rename_keys("verification", report)
    if not isinstance(report.get("statements"), Sequence):
        raise InvalidInputError(
            "`report` must contain the key `statements`. Use the output of "
            "`meanfield verify --json`."
        )
    statements = report["statements"]
    papers = _group_statements(statements)
    parts = {
        "style": source("palette.css", "statements.css"),
        "script": source("statements.js"),
        "papers": _paper_count(papers),
        "counts": _counts(statements),
        "circumstances": _circumstances(report),
        "failures": _failures(statements),
        "contents": "\n".join(_contents(*entry) for entry in papers.items()),
        "articles": "\n".join(
            _chapter(paper, groups, _options(report))
            for paper, groups in papers.items()
        ),
    }
    return fill_template(source("statements.html"), parts)


def _group_statements(
    statements: Sequence[Record],
) -> dict[str, dict[str, list[Record]]]:
    """The statements by paper and group, in the order of first appearance."""
    papers: dict[str, dict[str, list[Record]]] = {}
    for record in statements:
        groups = papers.setdefault(record["paper"], {})
        groups.setdefault(record["group"], []).append(record)
    return papers


def _counts(statements: Sequence[Record]) -> str:
    """The numbers of passed and of all trials: of claims, of controls, of misprints."""
    entries = []
    for role, label in _COUNTS:
        good, total = tally(statements, role)
        if not total and role not in ("statement", "control"):
            continue
        kind = "good" if good == total else "bad"
        number = f'<b class="{kind}">{good}</b> of {total}'
        entries.append(f"<li><span>{number}</span> {label}</li>")
    return "".join(entries)


def _circumstances(report: Record) -> str:
    seconds = sum(record["seconds"] for record in report["statements"])
    size, seed, dtype = (
        html.escape(str(report[name])) for name in ("size", "seed", "dtype")
    )
    return (
        f"Size <code>{size}</code>, seed <code>{seed}</code>, precision "
        f"<code>{dtype}</code>; {seconds:.0f} s of measurement."
    )


def _options(report: Record) -> str:
    """The command-line options that differ from the defaults, to repeat the report."""
    size = f" --size {report['size']}" if report["size"] != "quick" else ""
    return size + (f" --seed {report['seed']}" if report["seed"] else "")


def _failures(statements: Sequence[Record]) -> str:
    """The summary at the top: it lists failed statements, or says that all passed."""
    failures = [record["id"] for record in statements if not statement_passed(record)]
    if not statements:
        mark = verdict_mark(good=False, text="Nothing was measured.")
    elif not failures:
        text = "Every statement, control and printed claim ended as it must."
        mark = verdict_mark(good=True, text=text)
    else:
        names = ", ".join(f'<a href="#{n}">{n}</a>' for n in map(html.escape, failures))
        text = f"{len(failures)} of {len(statements)} not as they must be:"
        mark = f"{verdict_mark(good=False, text=text)} {names}"
    return f'<p class="outcome">{mark}</p>'


def _contents(paper: str, groups: Mapping[str, Sequence[Record]]) -> str:
    lists = "".join(
        f"<section><h4>{html.escape(group)}</h4><ul>{''.join(map(_entry, rows))}</ul>"
        "</section>"
        for group, rows in groups.items()
    )
    everything = [record for rows in groups.values() for record in rows]
    good = sum(map(statement_passed, everything))
    count = f'<span class="soft">{good} of {len(everything)}</span>'
    title = f"<summary><h3>{html.escape(paper)}</h3> {count}</summary>"
    return f"<details open>{title}{lists}</details>"


def _entry(statement: Record) -> str:
    name = html.escape(statement["id"])
    short = html.escape(statement["id"].split(":", 1)[-1])
    kind, sign = ("good", "✓") if statement_passed(statement) else ("bad", "✗")
    label = errata_label(statement)
    badge = html.escape(", ".join(statement["errata"])) or ("erratum" if label else "")
    description = f"{name}, {'verified' if kind == 'good' else 'not as it must be'}"
    return (
        f'<li data-kinds="{" ".join(kinds(statement))}">'
        f'<a href="#{name}" aria-label="{description}{f", {label}" if label else ""}">'
        f'<span class="{kind}">{sign}</span> {short}</a>'
        f"{f' <span class=badge>{badge}</span>' if badge else ''}</li>"
    )


def _chapter(paper: str, groups: Mapping[str, Sequence[Record]], options: str) -> str:
    sections = "\n".join(
        f'<section class="group"><h3>{html.escape(group)}</h3>\n'
        f"{chr(10).join(article(record, options) for record in rows)}\n</section>"
        for group, rows in groups.items()
    )
    name = html.escape(paper)
    return (
        f'<section class="paper" id="paper-{name}"><h2>{name}</h2>{_citation(paper)}\n'
        f"{sections}\n</section>"
    )


def _citation(key: str) -> str:
    """Authors and title as HTML; empty for an unknown key."""
    if key not in _TITLES:
        return ""
    authors, title = _TITLES[key]
    return f'<p class="source">{authors}: <cite>{title}</cite></p>'


def _paper_count(keys: Collection[str]) -> str:
    """The number of papers, and `this project` if it has statements of its own."""
    papers = len([key for key in keys if key != _PROJECT_KEY])
    parts = [f"{papers} paper{'s' if papers > 1 else ''}"] if papers else []
    parts += ["this project"] if _PROJECT_KEY in keys else []
    return " and ".join(parts) or "nobody"
