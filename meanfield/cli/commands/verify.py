"""`meanfield verify`: numerical checks of the statements of the papers."""

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from meanfield._extras import extra
from meanfield._writing import check_writable
from meanfield.cli.process._plugins import load_plugins
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note, print_json
from meanfield.errors import InvalidInputError, UnknownNameError, VerificationError
from meanfield.plotting import pages

if TYPE_CHECKING:
    from meanfield.cli.jobs._measuring import Work

T = TypeVar("T")
EXPLAIN = "explain"
SEEDS = 2**63  # number of valid seeds, as for runs


def verify(
    *patterns: str,
    size: Literal["quick", "full"] | None = None,
    seed: int | None = None,
    workers: int = 1,
    json: bool = False,
    html: Path | None = None,
    errata: Path | None = None,
    replay: Path | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """Check statements of papers numerically, each with a control.

    For example:
        meanfield verify lemma-4
        meanfield verify explain castin2025:prop-4.15     # details of one
        meanfield verify sigmoid                      # all that use one attention
        meanfield verify 'uw2023:*' --workers 2 --html slides.html

    The exit code is 6 unless every statement holds, every control is violated and every
    misprinted claim is violated.

    Args:
        patterns: ids as in `list statements`, parts of ids, papers, attentions, or
            patterns with * and ?; or `explain` and one id. [default: the statements of
            --plugin, else all]
        size: problem size: `quick` (minutes) or `full`. [default: quick]
        seed: seed of all random numbers. [default: 0]
        workers: number of worker processes.
        json: JSON object on stdout, which --replay reads (flag).
        html: HTML page to write, with formulas, numbers and plots.
        errata: Markdown file to write: claims as printed, corrected claims and
            counterexamples.
        replay: report printed by --json, whose statements are measured again at its
            witnesses, with its size and seed.
        plugin: Python file that registers extensions; may be repeated.
    """
    page = _check_options(seed, workers, html, errata)
    plugin_ids = _begin(plugin or [])
    from meanfield.cli.jobs import _statements as present
    from meanfield.cli.jobs._measuring import outcomes
    from meanfield.theorems import read_report, report

    base = {} if replay is None else read_report(replay)
    work = _work(patterns or (() if base else plugin_ids), size, seed, workers, base)
    results = report(outcomes(work, plugin or []), work.size, work.seed)
    show = present.explain if patterns[:1] == (EXPLAIN,) else present.table
    (print_json if json else show)(results)
    if page is not None:
        note(f"page: {pages.save_statements_page(results, page)}")
    if errata is not None:
        note(f"errata: {present.save_errata(results, errata)}")
    _check_results(results, plugin or [])


def _begin(plugins: list[Path]) -> tuple[str, ...]:
    """Loads plugins and returns the ids of the statements they register."""
    from meanfield._programs import fast_compilation

    os.environ.setdefault("XLA_FLAGS", fast_compilation())  # also for child processes
    open_session()
    from meanfield.theorems import statements

    builtin_ids = set(statements)
    load_plugins(plugins)
    return tuple(name for name in statements if name not in builtin_ids)


def _work(
    patterns: tuple[str, ...],
    size: Literal["quick", "full"] | None,
    seed: int | None,
    workers: int,
    base: dict[str, Any],
) -> "Work":
    """The statements that match the patterns, or all statements of a replayed report.

    Raises:
        InvalidInputError: if `explain` is not followed by exactly one name.
        UnknownNameError: if that name matches several statements.
    """
    from meanfield.cli.jobs._measuring import Work
    from meanfield.theorems import select_statements, witnesses

    evidence = witnesses(base) if base else {}
    is_one = patterns[:1] == (EXPLAIN,)
    if is_one and len(patterns) != 2:
        raise InvalidInputError("Name one statement: `meanfield verify explain ID`.")
    targets = select_statements(patterns[is_one:] or tuple(evidence))
    if is_one and len(targets) > 1:
        ids = ", ".join(target.id for target in targets[:6])
        raise UnknownNameError(f"`{patterns[1]}` matches {ids}, …; name one.")
    return Work(
        tuple(statement.id for statement in targets),
        _agree_on("size", size, base, "quick"),
        _agree_on("seed", seed, base, 0),
        workers,
        evidence,
    )


def _check_options(
    seed: int | None, workers: int, html: Path | None, errata: Path | None
) -> Path | None:
    """Checks the options before any work starts; returns the path of the HTML page."""
    if workers < 1:
        raise InvalidInputError(f"`--workers` must be at least 1; got {workers}.")
    if seed is not None and not 0 <= seed < SEEDS:
        raise InvalidInputError(f"`--seed` must be from 0 to 2^63 − 1; got {seed}.")
    page = html
    if html is not None:
        extra("latex2mathml", "formulas")
        page = pages.page_file(html)
    for file in (page, errata):
        if file is not None:
            check_writable(file)
    return page


def _agree_on(name: str, value: T | None, base: Mapping[str, Any], default: T) -> T:
    """The value of an option: as given, as in the replayed report, or the default.

    Raises:
        InvalidInputError: if the given value would change the report's random numbers.
    """
    record = base.get(name, value)
    if value not in (None, record):
        raise InvalidInputError(
            f"The report was measured with `--{name} {record}`; got {value}. Leave it "
            "out, or measure without `--replay`."
        )
    return default if record is None else record


def _check_results(results: dict, plugins: list[Path]) -> None:
    """Raises if a statement or its control failed.

    Raises:
        VerificationError: with the ids of the failed statements.
    """
    failures = [
        statement["id"]
        for statement in results["statements"]
        if not statement["has_passed"]
    ]
    if failures:
        ids = ", ".join(failures[:5]) + (", …" if len(failures) > 5 else "")
        options = "".join(f" --plugin {quote(str(file))}" for file in plugins)
        raise VerificationError(
            f"{len(failures)} of {len(results['statements'])} statements failed: "
            f"{ids}; see "
            f"`meanfield verify explain {failures[0]}{options}`."
        )
