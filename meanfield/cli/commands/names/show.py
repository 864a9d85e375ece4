"""`meanfield show`: a run, or anything that can be named."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from meanfield._reading import nearby
from meanfield.cli.names._naming import meanings, nearest
from meanfield.cli.terminal._output import note, print_json, print_pairs
from meanfield.endings import Status, endings_in_words
from meanfield.errors import InputFileError, InvalidInputError, UnknownNameError

DIGEST = 12  # characters of a SHA-256 that people are shown


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
    if plugin:
        from meanfield.cli.process._plugins import load_before_keys

        run = Path(name) if Path(name).exists() else None
        load_before_keys(plugin, {}, run)
    if Path(name).exists():
        _show_run(Path(name), in_json=json, in_toml=toml, check=check)
        return
    if toml or check:
        raise InputFileError(f"There is no run at `{name}`; {nearby(Path(name))}")
    _show_name(name, in_json=json)


def _show_name(name: str, *, in_json: bool) -> None:
    entries = meanings(name)
    if not entries:
        raise UnknownNameError(
            f"There is no run and nothing else called `{name}`; {nearest(name)}"
        )
    if in_json:
        is_one = len(entries) == 1
        print_json(entries[0] if is_one else {"name": name, "meanings": entries})
        return
    for place, entry in enumerate(entries):
        sys.stdout.write("\n" if place else "")
        print_pairs(entry)


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
        facts = {k: v for k, v in _about(store).items() if v is not None}
        files = _files(facts.pop("inputs", {}))
        facts.pop("words", None)  # as many as tokens
        facts.pop("endings", None)  # the reason tells
        print_pairs({**facts, **({"files": files} if files else {}), **verdict})
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


def _files(inputs: dict[str, Any]) -> str:
    """The files that a run began with, each with the head of its digest."""
    parts = [inputs.get(group, {}) for group in ("start", "moves", "plugins")]
    named = [(name, digest) for part in parts for name, digest in part.items()]
    return ", ".join(f"{name} ({digest[:DIGEST]}…)" for name, digest in named)
