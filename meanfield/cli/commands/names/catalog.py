"""`meanfield list` and `info`: what there is."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield._writing import check_writable
from meanfield.cli.names._kinds import KINDS, rows
from meanfield.cli.options._completing import words
from meanfield.cli.terminal._mathematics import in_letters
from meanfield.cli.terminal._output import (
    note,
    print_entries,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.errors import InvalidInputError


def list_(
    kind: Annotated[str | None, Parameter(completer=words(*KINDS))] = None,
    /,
    *,
    json: bool = False,
    docs: Path | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """List what can be named: attentions, clouds, presets, and more.

    For example:
        meanfield list
        meanfield list presets
        meanfield list attentions --json

    Args:
        kind: what to list, such as attentions; without it, all that can be listed.
        json: print JSON on stdout.
        docs: a Markdown file to write about all attentions: formulas and statements.
        plugin: a Python file that is run, and registers what you add; may be repeated.
    """
    if docs is not None and kind != "attentions":
        raise InvalidInputError(
            "`--docs` writes about attentions: `meanfield list attentions --docs FILE`."
        )
    if docs is not None:
        if json:
            raise InvalidInputError("`--docs` writes Markdown: leave out `--json`.")
        _write_page(docs, plugin)
        return
    if plugin:
        from meanfield.cli.process._plugins import load_plugins
        from meanfield.cli.process._session import open_session

        open_session()
        load_plugins(plugin)
    kinds = [{"name": name, "what": meaning} for name, meaning in KINDS.items()]
    entries = kinds if kind is None else rows(kind)
    if json:
        print_json(entries)
    elif kind == "statements":
        _print_statements(entries)
    elif kind == "presets":
        print_rows([{key: row[key] for key in ("name", "what")} for row in entries])
    else:
        print_rows(entries)


def _write_page(docs: Path, plugin: list[Path] | None) -> None:
    from meanfield.cli.process._plugins import load_plugins
    from meanfield.cli.process._session import open_session

    open_session()
    load_plugins(plugin)
    check_writable(docs)
    from meanfield.cli.jobs._attentions import save_page

    note(f"page: {save_page(docs)}")


def info(*, json: bool = False) -> None:
    """Show versions, the device, and the cache of compiled programs.

    For example:
        meanfield info

    Args:
        json: print one JSON object on stdout.
    """
    from meanfield.cli.process._programs import cache_folder
    from meanfield.cli.process._session import open_session

    open_session()
    from meanfield import runs

    values: dict[str, Any] = {
        **runs.versions(),
        "device": runs.device(),
        "memory": runs.readable(runs.physical_memory()),
        "cache": str(cache_folder() or "none: no folder is ours alone"),
    }
    (print_json if json else print_pairs)(values)


def _print_statements(entries: list[dict[str, Any]]) -> None:
    """What fits a terminal, and how many are claims and how many misprints."""
    columns = ("name", "group", "source", "claim")
    print_entries(
        [{name: in_letters(row[name]) for name in columns} for row in entries]
    )
    misprints = sum(row["name"] != row["id"] for row in entries)
    repeated = sum(bool(row["repeats"]) for row in entries)
    note(
        f"{len(entries) - misprints} claims, {repeated} of which repeat another, and "
        f"{misprints} misprints of them, which end in `:printed`"
    )
