"""`meanfield list`, `show` and `info`: what there is."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield._reading import nearby
from meanfield._writing import check_writable
from meanfield.cli.options._names import KINDS, meanings, nearest, rows
from meanfield.cli.options._values import words
from meanfield.cli.process._plugins import begin, load_before_keys
from meanfield.cli.process._programs import cache_folder
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._mathematics import in_letters
from meanfield.cli.terminal._output import (
    note,
    print_entries,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.endings import Status, endings_in_words
from meanfield.errors import InputFileError, InvalidInputError, UnknownNameError

DIGEST = 12  # characters of a SHA-256 that people are shown


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
    if docs is not None and json:
        raise InvalidInputError("`--docs` writes Markdown: leave out `--json`.")
    if plugin or docs is not None:
        begin("double", plugin)
    if docs is not None:
        check_writable(docs)
        from meanfield.cli.jobs._attentions import page

        note(f"page: {plotting.put(docs, page().encode())}")
        return
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


def show(
    name: str,
    /,
    *,
    json: bool = False,
    toml: bool = False,
    check: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Show a run, or anything that can be named.

    For example:
        meanfield show first.zarr --check
        meanfield show first.zarr --toml        # its keys, as a file for `simulate`
        meanfield show collapse
        meanfield show softmax

    What has a name in several lists, such as `moons`, is shown from all of them.

    Args:
        name: the folder of a run, or the name of an attention, cloud, preset,
            statement, ….
        json: print one JSON object on stdout; of a name with several meanings, with
            these as `meanings`.
        toml: print only the keys of a run, as a file for `simulate`.
        check: verify every byte of a run against its digests, and say so.
        plugin: a Python file that is run, and registers what you add; may be repeated.
            A run of a measure that only a plugin has is shown with it.
    """
    path = Path(name)
    load_before_keys(plugin, {}, path if path.exists() else None)
    if path.exists():
        _show_run(path, in_json=json, in_toml=toml, check=check)
        return
    if toml or check:
        raise InputFileError(f"There is no run at `{name}`; {nearby(path)}")
    entries = meanings(name)
    if not entries:
        raise UnknownNameError(
            f"There is no run and nothing else called `{name}`; {nearest(name)}"
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
        json: print one JSON object on stdout.
    """
    open_session()
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


def _show_run(path: Path, *, in_json: bool, in_toml: bool, check: bool) -> None:
    from meanfield.spec import parse
    from meanfield.storage import RunStore

    if in_json and in_toml:
        raise InvalidInputError("Give either `--json` or `--toml`.")
    store = RunStore.open(path)
    verdict = {}
    if check:
        store.check()
        verdict = {"check": f"passed: all {store.frames} frames are as written"}
    spec = parse(store.spec, where=f"the spec of `{path}`")
    if in_toml:
        sys.stdout.write(spec.toml())
        if check:
            note(f"check {verdict['check']}")
    elif in_json:
        print_json({**_about(store), **verdict, "spec": store.spec})
    else:
        about = _about(store)
        inputs = about.pop("inputs", {})
        groups = [inputs.get(group, {}) for group in ("start", "moves", "plugins")]
        digests = [pair for group in groups for pair in group.items()]
        if digests:
            heads = [f"{file} ({digest[:DIGEST]}…)" for file, digest in digests]
            about["files"] = ", ".join(heads)
        # Words are as many as tokens, and the reason tells the endings.
        idle = {"words", "endings", *(k for k, v in about.items() if v is None)}
        facts = {key: value for key, value in about.items() if key not in idle}
        print_pairs({**facts, **verdict})
        sys.stdout.write(f"\n# keys\n{spec.toml()}")


def _about(store: Any) -> dict[str, Any]:
    ending = store.ending
    attrs = {key: value for key, value in store.attrs.items() if key != "spec"}
    hint = f"not finished; go on with `meanfield resume {store.path}`"
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
    """How the flows of a run ended that holds several: 0.2 recorded a milder ending."""
    from meanfield.runs.records._stored import stored_members
    from meanfield.storage import RESUMABLE

    if store.ending is None or store.ending.name == RESUMABLE:
        return {}
    members = stored_members(store)
    statuses = [Status(m["status"]) for m in members if m["status"] is not None]
    if len(set(statuses)) < 2:
        return {}
    worst, counts = Status.most_severe(statuses), Counter(map(str, statuses))
    blow_ups = [member for member in members if member["t_star"] is not None]
    blow_ups.sort(key=lambda member: member["t_star"])
    first, last = (blow_ups[0], blow_ups[-1]) if blow_ups else ({}, {})
    return {
        "ending": worst.ending,
        "reason": f"{endings_in_words(statuses)}: {worst.reason}",
        "t_star": first.get("t_star"),
        "t_star_error": first.get("t_star_error"),
        "t_star_range": [first["t_star"], last["t_star"]] if blow_ups else None,
        "endings": dict(counts),
    }
