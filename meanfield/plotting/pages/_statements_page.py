"""A verification as one HTML file for a reader who doubts it; no network."""

import html
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from meanfield.errors import InvalidInputError

from ._statement_article import article, errata_label
from ._statement_checks import verdict_mark
from ._verdicts import kinds, passed, tally
from ._writing import filled, page_file, source, written

Record = Mapping[str, Any]

_OWN = "new"
_TITLES = {
    "castin2025": (
        "Castin, Ablin, Carrillo, Peyré",
        "A unified perspective on the dynamics of deep transformers",
    ),
    "sander2022": ("Sander, Ablin, Blondel, Peyré", "Sinkformers"),
    "uw2023": ("University of Washington", "slides on Sinkformers"),
    "tay2020": ("Tay et al.", "Sparse Sinkhorn Attention"),
    "shahbazi2025": ("Shahbazi et al.", "ESPFormer"),
    _OWN: ("This project", "formulas of its own, derived in its documents"),
}
_COUNTS = (
    ("statement", "statements hold"),
    ("control", "controls fail, as they must"),
    ("printed", "printed claims are refuted"),
    ("corrected", "corrections hold on the same data"),
)


def save_statements_page(report: Record, path: str | Path) -> Path:
    """Write `statements_page(report)` to `path`, to which `.html` is added if need be.

    Raises:
        InvalidInputError: if the suffix is another one, or as `statements_page` does.
        ResourceError: if the file cannot be written.

    Examples:
        >>> from meanfield.plotting import save_statements_page
        >>> from meanfield.theorems import measured, report
        >>> verified = report([measured("castin2025:eq-2.2")], "quick", 0)
        >>> save_statements_page(verified, "lemmas").name
        'lemmas.html'
    """
    file = page_file(path)
    return written(file, statements_page(report))


def statements_page(report: Record) -> str:
    """An HTML document with every statement of a report, its numbers and its verdicts.

    It holds its style, its script, its formulas as MathML and its plots as SVG, and
    fetches nothing. A number that is not finite counts as failed, whatever the report
    says of it.

    Args:
        report: what `meanfield.theorems.report` returns, or its JSON.

    Raises:
        InvalidInputError: if it holds no list of statements, or a formula cannot be
            typeset; the message names the statement.

    Examples:
        >>> from meanfield.plotting import statements_page
        >>> from meanfield.theorems import measured, report
        >>> verified = report([measured("castin2025:eq-2.2")], "quick", 0)
        >>> "castin2025:eq-2.2" in statements_page(verified)
        True
    """
    if not isinstance(report.get("statements"), Sequence):
        raise InvalidInputError(
            "`report` has no `statements`; give what `meanfield verify --json` prints."
        )
    statements = report["statements"]
    papers = _grouped(statements)
    parts = {
        "style": source("palette.css", "statements.css"),
        "script": source("statements.js"),
        "papers": _counted(papers),
        "counts": _counts(statements),
        "circumstances": _circumstances(report),
        "failures": _failures(statements),
        "contents": "\n".join(_contents(*each) for each in papers.items()),
        "articles": "\n".join(
            _chapter(paper, groups, _options(report))
            for paper, groups in papers.items()
        ),
    }
    return filled(source("statements.html"), parts)


def _grouped(statements: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """By paper and group, in the order of their first statements."""
    papers: dict[str, dict[str, list[Record]]] = {}
    for each in statements:
        groups = papers.setdefault(each["paper"], {})
        groups.setdefault(each["group"], []).append(each)
    return papers


def _counts(statements: Sequence[Record]) -> str:
    """How often each role went as it must, out of how often it was measured."""
    items = []
    for role, words in _COUNTS:
        good, measured = tally(statements, role)
        if not measured and role not in ("statement", "control"):
            continue
        kind = "good" if good == measured else "bad"
        number = f'<b class="{kind}">{good}</b> of {measured}'
        items.append(f"<li><span>{number}</span> {words}</li>")
    return "".join(items)


def _circumstances(report: Record) -> str:
    seconds = sum(each["seconds"] for each in report["statements"])
    size, seed, dtype = (
        html.escape(str(report[name])) for name in ("size", "seed", "dtype")
    )
    return (
        f"Size <code>{size}</code>, seed <code>{seed}</code>, precision "
        f"<code>{dtype}</code>; {seconds:.0f} s of measurement."
    )


def _options(report: Record) -> str:
    """What repeats the circumstances on the command line, where they are not usual."""
    size = f" --size {report['size']}" if report["size"] != "quick" else ""
    return size + (f" --seed {report['seed']}" if report["seed"] else "")


def _failures(statements: Sequence[Record]) -> str:
    """What did not go as it must, before anything else; or that all did."""
    failed = [each["id"] for each in statements if not passed(each)]
    if not statements:
        mark = verdict_mark(good=False, words="Nothing was measured.")
    elif not failed:
        words = "Every statement, control and printed claim ended as it must."
        mark = verdict_mark(good=True, words=words)
    else:
        names = ", ".join(f'<a href="#{n}">{n}</a>' for n in map(html.escape, failed))
        words = f"{len(failed)} of {len(statements)} not as they must be:"
        mark = f"{verdict_mark(good=False, words=words)} {names}"
    return f'<p class="outcome">{mark}</p>'


def _contents(paper: str, groups: Mapping[str, Sequence[Record]]) -> str:
    lists = "".join(
        f"<section><h4>{html.escape(group)}</h4><ul>{''.join(map(_entry, found))}</ul>"
        "</section>"
        for group, found in groups.items()
    )
    everything = [each for found in groups.values() for each in found]
    good = sum(map(passed, everything))
    count = f'<span class="soft">{good} of {len(everything)}</span>'
    title = f"<summary><h3>{html.escape(paper)}</h3> {count}</summary>"
    return f"<details open>{title}{lists}</details>"


def _entry(statement: Record) -> str:
    name = html.escape(statement["id"])
    short = html.escape(statement["id"].split(":", 1)[-1])
    kind, sign = ("good", "✓") if passed(statement) else ("bad", "✗")
    label = errata_label(statement)
    badge = html.escape(", ".join(statement["errata"])) or ("erratum" if label else "")
    said = f"{name}, {'verified' if kind == 'good' else 'not as it must be'}"
    return (
        f'<li data-kinds="{" ".join(kinds(statement))}">'
        f'<a href="#{name}" aria-label="{said}{f", {label}" if label else ""}">'
        f'<span class="{kind}">{sign}</span> {short}</a>'
        f"{f' <span class=badge>{badge}</span>' if badge else ''}</li>"
    )


def _chapter(paper: str, groups: Mapping[str, Sequence[Record]], options: str) -> str:
    sections = "\n".join(
        f'<section class="group"><h3>{html.escape(group)}</h3>\n'
        f"{chr(10).join(article(each, options) for each in found)}\n</section>"
        for group, found in groups.items()
    )
    name = html.escape(paper)
    return (
        f'<section class="paper" id="paper-{name}"><h2>{name}</h2>{_cited(paper)}\n'
        f"{sections}\n</section>"
    )


def _cited(key: str) -> str:
    """Authors and title as HTML; nothing for a key that is not known."""
    if key not in _TITLES:
        return ""
    authors, title = _TITLES[key]
    return f'<p class="source">{authors}: <cite>{title}</cite></p>'


def _counted(keys: Collection[str]) -> str:
    """How many papers there are, and whether the project has statements of its own."""
    papers = len([key for key in keys if key != _OWN])
    words = [f"{papers} paper{'s' if papers > 1 else ''}"] if papers else []
    return " and ".join([*words, "this project"] if _OWN in keys else words) or "nobody"
