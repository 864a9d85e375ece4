"""`meanfield list` and `info`: what there is."""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield._registry import suggestion
from meanfield._writing import check_writable
from meanfield.cli._completing import words
from meanfield.cli.terminal._mathematics import in_letters
from meanfield.cli.terminal._output import (
    note,
    print_entries,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.endings import Status
from meanfield.errors import InvalidInputError, UnknownNameError

KINDS = {
    "attentions": "what `--attention` names",
    "clouds": "what `--init` names: where tokens start",
    "energies": "what `--flow-of` and `--observe` name: numbers of a measure",
    "families": "what `--starts` names: many Gaussians at once",
    "masks": "what `--mask` names",
    "measures": "what `--measure` names: what is moved",
    "models": "what `--model` names: real transformers",
    "panels": "what `plot --panel` names: pictures",
    "presets": "what `--preset` names: sets of keys",
    "statements": "what `verify` measures: claims of the papers",
    "solvers": "what `--solver` names: integrators",
    "stops": "what `--stop` names: when a flow ends early",
    "tasks": "what `train start` names: what networks are trained on",
    "endings": "how a run ends, with the exit code of its command",
}
REGISTRIES = {  # where a kind has one, under its own name; loaded when it is needed
    "attentions": "meanfield.attention",
    "clouds": "meanfield.measures.sampling",
    "energies": "meanfield.energies",
    "families": "meanfield.measures.families",
    "masks": "meanfield.dynamics",
    "panels": "meanfield.plotting",
    "solvers": "meanfield.flows",
    "stops": "meanfield.flows",
    "tasks": "meanfield.training",
}


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


def rows(kind: str) -> list[dict[str, Any]]:
    """All of a kind, with what can be said of each.

    Raises:
        UnknownNameError: if there is no such kind.
    """
    tables = {"attentions": _attentions, "models": _models, "presets": _presets}
    tables |= {"endings": _endings, "masks": _masks, "statements": _statements}
    tables["measures"] = _measures
    if kind in tables:
        return tables[kind]()
    if kind not in KINDS:
        raise UnknownNameError(
            f"Nothing is listed as `{kind}`; {suggestion(kind, KINDS)}"
        )
    return [{"name": n, "what": summary(o)} for n, o in registry(kind).items()]


def registry(kind: str) -> Mapping[str, object]:
    """The registry of a kind that is neither model nor preset."""
    return getattr(importlib.import_module(REGISTRIES[kind]), kind)


def summary(target: object) -> str:
    """The first paragraph of a docstring, its mathematics in plain letters."""
    text = " ".join((inspect.getdoc(target) or "").split("\n\n", 1)[0].split())
    return in_letters(text)


def _attentions() -> list[dict[str, Any]]:
    from meanfield.attention import attentions, closed_on_gaussians, symmetries

    closed_names = closed_on_gaussians()
    return [
        {
            "name": name,
            "gaussian": name in closed_names,
            "symmetries": sorted(symmetries.get(name, ())),
            "what": summary(factory),
        }
        for name, factory in attentions.items()
    ]


def _endings() -> list[dict[str, Any]]:
    return [
        {"name": status.ending, "exit": status.row.exit_code, "what": status.reason}
        for status in Status
    ]


def _masks() -> list[dict[str, Any]]:
    """The registered masks, and those that take a width."""
    from meanfield.dynamics import patterns

    masks = [{"name": n, "what": summary(o)} for n, o in registry("masks").items()]
    wide = [{"name": f"{n}:WIDTH", "what": summary(o)} for n, o in patterns.items()]
    return [*masks, *wide]


def _measures() -> list[dict[str, Any]]:
    from meanfield.spec import measures

    return [{"name": name, "what": row.what} for name, row in measures.items()]


def _models() -> list[dict[str, Any]]:
    from meanfield import models

    return [
        {"name": m.name, "installed": m.installed, "to_install": m.install}
        for m in models.listed()
    ]


def _short(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What fits a terminal of the rows of statements."""
    columns = ("name", "group", "source", "claim")
    return [{name: in_letters(row[name]) for name in columns} for row in entries]


def _print_statements(entries: list[dict[str, Any]]) -> None:
    """What fits a terminal, and how many are claims and how many misprints."""
    print_entries(_short(entries))
    misprints = sum(row["name"] != row["id"] for row in entries)
    repeated = sum(bool(row["repeats"]) for row in entries)
    note(
        f"{len(entries) - misprints} claims, {repeated} of which repeat another, and "
        f"{misprints} misprints of them, which end in `:printed`"
    )


def _statements() -> list[dict[str, Any]]:
    from meanfield.cli.process._session import open_session

    open_session()
    from meanfield.theorems import described, statements

    entries = []
    for statement in statements.values():
        about = {"name": statement.id, **described(statement)}
        entries.append(about)
        if statement.printed is not None:
            claim = {"claim": statement.printed.printed}
            entries.append({**about, "name": f"{statement.id}:printed", **claim})
    return entries


def _presets() -> list[dict[str, Any]]:
    from meanfield.spec import presets

    return [
        {"name": name, "what": preset.what, "keys": dict(preset)}
        for name, preset in presets.items()
    ]
