"""`meanfield list`, `show` and `info`: what there is."""

import inspect
from pathlib import Path
from typing import Any

from meanfield.errors import UnknownNameError

from ._console import print_json, print_pairs, print_table

KINDS = ("attentions", "clouds", "masks", "models", "panels", "presets", "solvers")


def list_(
    kind: str | None = None, /, *, json: bool = False, plugin: list[Path] | None = None
) -> None:
    """List what can be named: attentions, clouds, masks, models, panels, presets, …

    Args:
        kind: one of the kinds; without it, the kinds.
        json: print JSON on stdout.
        plugin: a Python file that registers more; may be repeated.
    """
    from ._session import load_plugins, open_session

    if plugin:
        open_session()
        load_plugins(plugin)
    rows = _rows(kind) if kind else [{"name": k} for k in KINDS]
    if json:
        print_json(rows)
    elif rows:
        headers = list(rows[0])
        print_table([[row[h] for h in headers] for row in rows], headers)


def show(name: str, /, *, json: bool = False, check: bool = False) -> None:
    """Show a run, or anything that can be named.

    Args:
        name: the folder of a run, or the name of an attention, cloud, preset, ….
        json: print JSON on stdout.
        check: verify every byte of a run against its digests.
    """
    if Path(name).exists():
        _show_run(Path(name), in_json=json, check=check)
        return
    for kind in ("attentions", "clouds", "presets", "solvers", "masks"):
        found = [row for row in _rows(kind) if row["name"] == name]
        if found:
            _show_row(kind, found[0], in_json=json)
            return
    raise UnknownNameError(
        f"There is no run and nothing else called `{name}`; see `meanfield list`."
    )


def info(*, json: bool = False) -> None:
    """Show versions, the device, and where compiled programs are kept.

    Args:
        json: print JSON on stdout.
    """
    from ._session import cache_folder, open_session

    open_session()
    from meanfield import runs

    values: dict[str, Any] = {
        **runs.versions(),
        "device": runs.device(),
        "memory": runs.readable(runs.physical_memory()),
        "cache": str(cache_folder() or "none: the folder cannot be written"),
    }
    (print_json if json else print_pairs)(values)


def _rows(kind: str) -> list[dict[str, Any]]:
    rows = {
        "attentions": _attentions,
        "models": _models,
        "presets": _presets,
    }
    if kind in rows:
        return rows[kind]()
    if kind not in KINDS:
        from meanfield._registry import suggestion

        raise UnknownNameError(f"Nothing is listed as `{kind}`; {suggestion(kind, list(KINDS))}")
    return [{"name": n, "what": _summary(o)} for n, o in _registry(kind).items()]


def _registry(kind: str) -> Any:  # noqa: ANN401
    if kind == "panels":
        from meanfield.plotting import panels

        return panels
    if kind == "clouds":
        from meanfield.measures.sampling import clouds

        return clouds
    if kind == "masks":
        from meanfield.dynamics import masks

        return masks
    from meanfield.flows import solvers

    return solvers


def _attentions() -> list[dict[str, Any]]:
    from meanfield.attention import attentions, closed_on_gaussians, symmetries

    closed = closed_on_gaussians()
    return [
        {
            "name": name,
            "gaussian": name in closed,
            "symmetries": sorted(symmetries[name]),
            "what": _summary(factory),
        }
        for name, factory in attentions.items()
    ]


def _models() -> list[dict[str, Any]]:
    from meanfield import models

    return [{"name": m.name, "installed": m.installed} for m in models.listed()]


def _presets() -> list[dict[str, Any]]:
    from meanfield.spec import presets

    return [{"name": name, "keys": dict(keys)} for name, keys in presets.items()]


def _summary(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n", 1)[0]


def _show_row(kind: str, row: dict[str, Any], *, in_json: bool) -> None:
    if in_json:
        print_json({"kind": kind, **row})
        return
    print_pairs({"kind": kind, **row})
    if kind != "presets":
        from meanfield.attention import attentions

        thing = attentions[row["name"]] if kind == "attentions" else _registry(kind)[row["name"]]
        print_pairs({"": inspect.getdoc(thing) or ""})


def _show_run(path: Path, *, in_json: bool, check: bool) -> None:
    from meanfield.spec import parse
    from meanfield.storage import RunStore

    store = RunStore.open(path)
    if check:
        store.check()
    ending = store.ending
    values: dict[str, Any] = {
        "run": str(path),
        "ending": "interrupted" if ending is None else ending.name,
        "reason": "never finished; `meanfield resume`" if ending is None else ending.reason,
        "frames": store.frames,
        "t": None if ending is None else ending.stop_time,
        "t_star": None if ending is None else ending.t_star,
        "t_star_error": None if ending is None else ending.t_star_error,
        **{k: v for k, v in store.attrs.items() if k not in ("spec", "versions")},
        "versions": store.attrs["versions"],
    }
    if in_json:
        print_json({**values, "spec": store.spec})
        return
    print_pairs({k: v for k, v in values.items() if v is not None})
    toml = parse(store.spec, where=f"the spec of `{path}`").toml()
    print_pairs({"": "", "spec": "\n" + toml.rstrip()})
