"""`meanfield list`, `show` and `info`: names, stored runs and versions."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield._reading import similar_name
from meanfield._writing import check_writable
from meanfield.cli.options._names import KINDS, meanings, nearest, rows
from meanfield.cli.options._values import completer_of
from meanfield.cli.process._plugins import begin, load_before_keys
from meanfield.cli.process._programs import cache_folder
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._mathematics import to_unicode
from meanfield.cli.terminal._output import (
    note,
    print_entries,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.endings import Status, summarise_endings
from meanfield.errors import InputFileError, InvalidInputError, UnknownNameError

DIGEST = 12  # number of characters of a SHA-256 digest that are printed
PRESET_COLUMNS = ("name", "description")  # the keys are too long for a table


def list_(
    kind: Annotated[str | None, Parameter(completer=completer_of(*KINDS))] = None,
    /,
    *,
    json: bool = False,
    docs: Path | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """List the names of attentions, clouds, presets, and more.

    For example:
        meanfield list
        meanfield list presets
        meanfield list attentions --json

    Args:
        kind: kind of names to list, such as attentions; all kinds if absent.
        json: JSON on stdout instead of a table (flag).
        docs: Markdown file to write, with formulas and statements of all attentions.
        plugin: Python file that registers extensions; may be repeated.
    """
    if docs is not None:
        _write_page(docs, kind, plugin, json=json)
        return
    if plugin:
        begin("double", plugin)
    kinds = [{"name": name, "description": meaning} for name, meaning in KINDS.items()]
    entries = kinds if kind is None else rows(kind)
    if json:
        print_json(entries)
    elif kind == "statements":
        _print_statements(entries)
    elif kind == "presets":
        print_rows([{key: row[key] for key in PRESET_COLUMNS} for row in entries])
    else:
        print_rows(entries)


def _write_page(
    docs: Path, kind: str | None, plugin: list[Path] | None, *, json: bool
) -> None:
    """Writes the page of all attentions."""
    if kind != "attentions":
        raise InvalidInputError(
            "`--docs` describes attentions only: use `meanfield list attentions "
            "--docs FILE`."
        )
    if json:
        raise InvalidInputError("`--docs` writes Markdown: leave out `--json`.")
    begin("double", plugin)
    check_writable(docs)
    from meanfield.cli.jobs._attentions import page

    note(f"page: {plotting.write_file(docs, page().encode())}")


def show(
    name: str,
    /,
    *,
    json: bool = False,
    toml: bool = False,
    check: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Show a stored run, or describe a name from `meanfield list`.

    For example:
        meanfield show first.zarr --check
        meanfield show first.zarr --toml        # its keys as a file for `simulate`
        meanfield show collapse
        meanfield show softmax

    If a name such as `moons` is in several lists, its entries in all lists are shown.

    Args:
        name: folder of a run, or name of an attention, cloud, preset, statement, ….
        json: JSON object on stdout (flag); if the name is in several lists, `meanings`
            has an entry for each.
        toml: only the keys of the run, as a TOML file for `simulate` (flag).
        check: verification of all files of the run against their digests (flag).
        plugin: Python file that registers extensions, such as the measure of the run;
            may be repeated.
    """
    path = Path(name)
    load_before_keys(plugin, {}, path if path.exists() else None)
    if path.exists():
        _show_run(path, json=json, toml=toml, check=check)
        return
    if toml or check:
        raise InputFileError(f"There is no run at `{name}`; {similar_name(path)}")
    entries = meanings(name)
    if not entries:
        raise UnknownNameError(
            f"There is no run and no entry called `{name}`; {nearest(name)}"
        )
    if json:
        is_one = len(entries) == 1
        print_json(entries[0] if is_one else {"name": name, "meanings": entries})
        return
    for place, entry in enumerate(entries):
        sys.stdout.write("\n" if place else "")
        print_pairs(entry)


def info(*, json: bool = False) -> None:
    """Show versions, the device, and the cache of compiled programs.

    For example:
        meanfield info

    Args:
        json: JSON object on stdout instead of lines (flag).
    """
    open_session()
    values: dict[str, Any] = {
        **runs.versions(),
        "device": runs.device(),
        "memory": runs.format_bytes(runs.physical_memory()),
        "cache": str(cache_folder() or "none: no folder is ours alone"),
    }
    (print_json if json else print_pairs)(values)


def _print_statements(entries: list[dict[str, Any]]) -> None:
    """Prints a table of statements, and the number of statements of each kind."""
    columns = ("name", "group", "source", "claim")
    table = [{name: to_unicode(row[name]) for name in columns} for row in entries]
    print_entries(table)
    n_misprints = sum(row["name"] != row["id"] for row in entries)
    n_repeats = sum(bool(row["repeats"]) for row in entries)
    note(
        f"{len(entries) - n_misprints} claims, {n_repeats} of which repeat another, "
        f"and {n_misprints} misprinted versions, whose names end in `:printed`"
    )


def _show_run(path: Path, *, json: bool, toml: bool, check: bool) -> None:
    from meanfield.spec import parse
    from meanfield.storage import RunStore

    if json and toml:
        raise InvalidInputError("Give either `--json` or `--toml`.")
    store = RunStore.open(path)
    verdict = {}
    if check:
        store.check()
        verdict = {"check": f"passed: all {store.frames} frames match their digests"}
    spec = parse(store.spec, where=f"the spec of `{path}`")
    if toml:
        sys.stdout.write(spec.toml())
        if check:
            note(f"check {verdict['check']}")
    elif json:
        print_json({**_run_summary(store), **verdict, "spec": store.spec})
    else:
        summary = _run_summary(store)
        inputs = summary.pop("inputs", {})
        groups = [inputs.get(group, {}) for group in ("start", "flow", "plugins")]
        digests = [pair for group in groups for pair in group.items()]
        heads = [f"{file} ({digest[:DIGEST]}…)" for file, digest in digests]
        summary["files"] = ", ".join(heads) or None
        # A text has too many words to show. The entry `reason` lists the endings.
        idle = {"words", "endings", *(k for k, v in summary.items() if v is None)}
        facts = {key: value for key, value in summary.items() if key not in idle}
        print_pairs({**facts, **verdict})
        sys.stdout.write(f"\n# keys\n{spec.toml()}")


def _run_summary(store: Any) -> dict[str, Any]:
    ending = store.ending
    attrs = {key: value for key, value in store.attrs.items() if key != "spec"}
    hint = f"not finished; resume it with `meanfield resume {store.path}`"
    return {
        "run": str(store.path),
        "ending": Status.INTERRUPTED.ending if ending is None else ending.name,
        "reason": hint if ending is None else ending.reason,
        "frames": store.frames,
        "t": None if ending is None else ending.stop_time,
        "t_star": None if ending is None else ending.t_star,
        "t_star_error": None if ending is None else ending.t_star_error,
        **_family(store),
        **attrs,
    }


def _family(store: Any) -> dict[str, Any]:
    """How the flows of a run ended, and the most severe of these endings.

    It is computed from the flows, because version 0.2 stored a less severe ending.
    """
    from meanfield.runs.records._validation import load_members
    from meanfield.storage import RESUMABLE

    if store.ending is None or store.ending.name == RESUMABLE:
        return {}
    members = load_members(store)
    statuses = [Status(m["status"]) for m in members if m["status"] is not None]
    if len(set(statuses)) < 2:
        return {}
    worst, counts = Status.most_severe(statuses), Counter(map(str, statuses))
    blow_ups = [member for member in members if member["t_star"] is not None]
    blow_ups.sort(key=lambda member: member["t_star"])
    first, last = (blow_ups[0], blow_ups[-1]) if blow_ups else ({}, {})
    return {
        "ending": worst.ending,
        "reason": f"{summarise_endings(statuses)}: {worst.reason}",
        "t_star": first.get("t_star"),
        "t_star_error": first.get("t_star_error"),
        "t_star_range": [first["t_star"], last["t_star"]] if blow_ups else None,
        "endings": dict(counts),
    }
