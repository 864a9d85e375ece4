"""`meanfield verify`: the statements of five papers, measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from meanfield.errors import InvalidInputError, UnknownNameError, VerificationFailed

from ._output import note, print_json

if TYPE_CHECKING:
    from meanfield.theorems import Statement

EXPLAIN = "explain"


def verify(
    *patterns: str,
    size: Literal["quick", "full"] = "quick",
    seed: int = 0,
    jobs: int = 1,
    json: bool = False,
    html: Path | None = None,
    errata: Path | None = None,
    replay: Path | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """Measure the statements of five papers, each with a control that must fail.

    `verify explain ID` says all about one. Ends with 6 unless every statement holds,
    every control fails and every printed error is found violated.

    Args:
        *patterns: ids, parts of ids, papers, or names with * and ?; all without any.
        size: `quick` takes minutes; `full` is the same with more of everything.
        seed: of every draw; the same seed gives the same numbers.
        jobs: processes at work.
        json: print one JSON object on stdout; it can be replayed.
        html: a page to write, with formulas, numbers and plots.
        errata: a Markdown file to write: what is printed, what is true, numbers.
        replay: a report as printed by --json; its witnesses are measured again.
        plugin: a Python file that registers more; may be repeated.
    """
    if jobs < 1:
        raise InvalidInputError(f"`--jobs` must be at least 1; got {jobs}.")
    from ._session import load_plugins, open_session

    open_session()
    load_plugins(plugin)
    from meanfield.theorems import read_report, report, witnesses

    from . import _verify as present

    known = {} if replay is None else witnesses(read_report(replay))
    names = patterns[1:] if patterns[:1] == (EXPLAIN,) else patterns
    made = _chosen(names, explaining=names is not patterns)
    work = present.Work(tuple(s.id for s in made), size, seed, jobs, known)
    found = report(present.outcomes(work, plugin or []), size, seed)
    if json:
        print_json(found)
    elif names is not patterns:
        present.explain(found["statements"][0])
    else:
        present.table(found)
    _write(found, html, errata)
    _conclude(found)


def _chosen(names: Sequence[str], *, explaining: bool) -> "list[Statement]":
    from meanfield.theorems import chosen

    found = chosen(names)
    if not explaining:
        return found
    exact = [each for each in found if names and names[0] in (each.id, *each.aliases)]
    if len(names) != 1:
        raise InvalidInputError("Name one statement: `meanfield verify explain ID`.")
    if not exact and len(found) > 1:
        shown = ", ".join(each.id for each in found[:6])
        raise UnknownNameError(f"`{names[0]}` could be any of {shown}, …; name one.")
    return exact or found


def _write(found: dict, html: Path | None, errata: Path | None) -> None:
    if html is not None:
        from meanfield.plotting.pages import save_statements_page

        note(f"page: {save_statements_page(found, html)}")
    if errata is not None:
        from ._errata import save_errata

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
