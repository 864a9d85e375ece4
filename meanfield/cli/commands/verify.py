"""`meanfield verify`: the statements of the papers, measured."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from meanfield._extras import extra
from meanfield._writing import check_writable
from meanfield.cli.process._plugins import load_plugins
from meanfield.cli.process._session import compile_fast, open_session
from meanfield.cli.terminal._output import note, print_json
from meanfield.errors import InvalidInputError, UnknownNameError, VerificationFailed
from meanfield.plotting import pages

if TYPE_CHECKING:
    from meanfield.cli.jobs._measuring import Work

T = TypeVar("T")
EXPLAIN = "explain"
SEEDS = 2**63  # of them; those that a run may have


def verify(
    *patterns: str,
    size: Literal["quick", "full"] | None = None,
    seed: int | None = None,
    jobs: int = 1,
    json: bool = False,
    html: Path | None = None,
    errata: Path | None = None,
    replay: Path | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """Measure the statements of the papers, each with a control.

    For example:
        meanfield verify lemma-4
        meanfield verify explain castin2025:prop-4.15     # all about one
        meanfield verify 'uw2023:*' --jobs 2 --html slides.html

    Ends with 6 unless every statement holds,
    every control fails and every printed error is found violated.

    Args:
        patterns: ids, parts of ids, papers, or names with * and ?. Or `explain` and one
            id. [default: those that --plugin adds, else all]
        size: `quick`, the default, takes minutes; `full` has more of everything.
        seed: of every draw, 0 by default; the same seed gives the same numbers.
        jobs: processes at work.
        json: print one JSON object on stdout; it can be replayed.
        html: a page to write, with formulas, numbers and plots.
        errata: a Markdown file to write: what is printed, what is true, numbers.
        replay: a report as printed by --json; its statements, or those named, are
            measured again at its witnesses, with its size and seed.
        plugin: a Python file that is run, and registers what you add; may be repeated.
    """
    page = _check_options(seed, jobs, html, errata)
    added = _begin(plugin or [])
    from meanfield.cli.jobs import _statements as present
    from meanfield.cli.jobs._measuring import outcomes
    from meanfield.theorems import read_report, report

    base = {} if replay is None else read_report(replay)
    work = _work(patterns or (() if base else added), size, seed, jobs, base)
    results = report(outcomes(work, plugin or []), work.size, work.seed)
    show = present.explain if patterns[:1] == (EXPLAIN,) else present.table
    (print_json if json else show)(results)
    if page is not None:
        note(f"page: {pages.save_statements_page(results, page)}")
    if errata is not None:
        note(f"errata: {present.save_errata(results, errata)}")
    _conclude(results, plugin or [])


def _begin(plugins: list[Path]) -> tuple[str, ...]:
    """The ids of the statements that the plugins register."""
    compile_fast()
    open_session()
    from meanfield.theorems import statements

    shipped = set(statements)
    load_plugins(plugins)
    return tuple(name for name in statements if name not in shipped)


def _work(
    patterns: tuple[str, ...],
    size: Literal["quick", "full"] | None,
    seed: int | None,
    jobs: int,
    base: dict[str, Any],
) -> "Work":
    """The statements of some patterns, or those of a report that is replayed.

    Raises:
        InvalidInputError: if all about one is asked for, and there is not one name.
        UnknownNameError: if that could be the name of several.
    """
    from meanfield.cli.jobs._measuring import Work
    from meanfield.theorems import chosen, witnesses

    evidence = witnesses(base) if base else {}
    is_one = patterns[:1] == (EXPLAIN,)
    if is_one and len(patterns) != 2:
        raise InvalidInputError("Name one statement: `meanfield verify explain ID`.")
    targets = chosen(patterns[is_one:] or tuple(evidence))
    if is_one and len(targets) > 1:
        ids = ", ".join(target.id for target in targets[:6])
        raise UnknownNameError(f"`{patterns[1]}` could be any of {ids}, …; name one.")
    return Work(
        tuple(statement.id for statement in targets),
        _agree_on("size", size, base, "quick"),
        _agree_on("seed", seed, base, 0),
        jobs,
        evidence,
    )


def _check_options(
    seed: int | None, jobs: int, html: Path | None, errata: Path | None
) -> Path | None:
    """The file of the page, once it is clear that nothing will fail after the work."""
    if jobs < 1:
        raise InvalidInputError(f"`--jobs` must be at least 1; got {jobs}.")
    if seed is not None and not 0 <= seed < SEEDS:
        raise InvalidInputError(f"`--seed` is at least 0 and below 2^63; got {seed}.")
    page = html
    if html is not None:
        extra("latex2mathml", "formulas")
        page = pages.page_file(html)
    for file in (page, errata):
        if file is not None:
            check_writable(file)
    return page


def _agree_on(name: str, value: T | None, base: Mapping[str, Any], default: T) -> T:
    """What is given, else what a replayed report was measured with, else the usual.

    Raises:
        InvalidInputError: if the first two differ: the draws would, too.
    """
    record = base.get(name, value)
    if value not in (None, record):
        raise InvalidInputError(
            f"The report was measured with `--{name} {record}`; got {value}: leave it "
            "out, or measure without `--replay`."
        )
    return default if record is None else record


def _conclude(results: dict, plugins: list[Path]) -> None:
    """Raises if anything went other than it must.

    Raises:
        VerificationFailed: with the ids.
    """
    failures = [
        statement["id"]
        for statement in results["statements"]
        if not statement["passed"]
    ]
    if failures:
        ids = ", ".join(failures[:5]) + (", …" if len(failures) > 5 else "")
        options = "".join(f" --plugin {quote(str(file))}" for file in plugins)
        raise VerificationFailed(
            f"{len(failures)} of {len(results['statements'])} statements did not come "
            f"out as they must: {ids}; see "
            f"`meanfield verify explain {failures[0]}{options}`."
        )
