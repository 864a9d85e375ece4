"""`meanfield verify`: the statements of the papers, measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from meanfield._writing import check_writable
from meanfield.cli.terminal._output import note, print_json
from meanfield.errors import InvalidInputError, UnknownNameError, VerificationFailed

if TYPE_CHECKING:
    from meanfield.theorems import Statement

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
    """Measure the statements of the papers, each with a control that must fail.

    `verify explain ID` says all about one. Ends with 6 unless every statement holds,
    every control fails and every printed error is found violated.

    Args:
        patterns: ids, parts of ids, papers, or names with * and ?; all without any.
            Or `explain` and one id.
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
    page = _checked(seed, jobs, html, errata)
    from meanfield.cli.process._plugins import load_plugins
    from meanfield.cli.process._session import compile_fast, open_session

    compile_fast()
    open_session()
    load_plugins(plugin)
    from meanfield.cli.jobs import _statements as present
    from meanfield.cli.jobs._measuring import Work, outcomes
    from meanfield.theorems import chosen, read_report, report, witnesses

    before = {} if replay is None else read_report(replay)
    known = witnesses(before) if before else {}
    explaining = patterns[:1] == (EXPLAIN,)
    made = [_one(patterns[1:])] if explaining else chosen(patterns or tuple(known))
    work = Work(
        tuple(each.id for each in made),
        _agreed("size", size, before, "quick"),
        _agreed("seed", seed, before, 0),
        jobs,
        known,
    )
    found = report(outcomes(work, plugin or []), work.size, work.seed)
    show = present.explain if explaining else present.table
    (print_json if json else show)(found)
    _write(found, page, errata)
    _conclude(found)


def _checked(
    seed: int | None, jobs: int, html: Path | None, errata: Path | None
) -> Path | None:
    """The file of the page, once it is clear that nothing will fail after the work."""
    if jobs < 1:
        raise InvalidInputError(f"`--jobs` must be at least 1; got {jobs}.")
    if seed is not None and not 0 <= seed < SEEDS:
        raise InvalidInputError(f"`--seed` is at least 0 and below 2^63; got {seed}.")
    page = html
    if html is not None:
        from meanfield.plotting.pages import page_file

        page = page_file(html)
    for file in (page, errata):
        if file is not None:
            check_writable(file)
    return page


def _agreed(name: str, given: T | None, before: Mapping[str, Any], usual: T) -> T:
    """What is given, else what a replayed report was measured with, else the usual.

    Raises:
        InvalidInputError: if the first two differ: the draws would, too.
    """
    fixed = before.get(name, given)
    if given not in (None, fixed):
        raise InvalidInputError(
            f"The report was measured with `--{name} {fixed}`; got {given}: leave it "
            "out, or measure without `--replay`."
        )
    return usual if fixed is None else fixed


def _one(names: Sequence[str]) -> "Statement":
    """The statement of a name.

    Raises:
        InvalidInputError: if there is not one name.
        UnknownNameError: if it could be that of several.
    """
    from meanfield.theorems import chosen

    if len(names) != 1:
        raise InvalidInputError("Name one statement: `meanfield verify explain ID`.")
    found = chosen(names)
    if len(found) > 1:
        shown = ", ".join(each.id for each in found[:6])
        raise UnknownNameError(f"`{names[0]}` could be any of {shown}, …; name one.")
    return found[0]


def _write(found: dict, html: Path | None, errata: Path | None) -> None:
    if html is not None:
        from meanfield.plotting.pages import save_statements_page

        note(f"page: {save_statements_page(found, html)}")
    if errata is not None:
        from meanfield.cli.jobs._errata import save_errata

        note(f"errata: {save_errata(found, errata)}")


def _conclude(found: dict) -> None:
    """Raises if anything went other than it must.

    Raises:
        VerificationFailed: with the ids.
    """
    bad = [each["id"] for each in found["statements"] if not each["passed"]]
    if bad:
        shown = ", ".join(bad[:5]) + (", …" if len(bad) > 5 else "")
        raise VerificationFailed(
            f"{len(bad)} of {len(found['statements'])} statements did not come out as "
            f"they must: {shown}; see `meanfield verify explain {bad[0]}`."
        )
