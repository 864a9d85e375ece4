"""`meanfield show`: a run, or anything that can be named."""

import sys
from pathlib import Path
from typing import Any

from meanfield._registry import suggestion
from meanfield.errors import InputFileError, InvalidInputError, UnknownNameError

from ._output import print_json, print_pairs
from .catalog import rows

# Those that need no JAX come first.
KINDS = (
    "presets",
    "models",
    "panels",
    "attentions",
    "clouds",
    "families",
    "masks",
    "solvers",
)


def show(
    name: str, /, *, json: bool = False, toml: bool = False, check: bool = False
) -> None:
    """Show a run, or anything that can be named.

    Args:
        name: the folder of a run, or the name of an attention, cloud, preset, ….
        json: print one JSON object on stdout.
        toml: print only the keys of a run, as a file for `simulate`.
        check: verify every byte of a run against its digests.
    """
    if Path(name).exists():
        _show_run(Path(name), in_json=json, in_toml=toml, check=check)
        return
    if toml or check:
        raise InputFileError(f"There is no run at `{name}`.")
    names: list[str] = []
    for kind in KINDS:
        found = {row["name"]: row for row in rows(kind)}
        if name in found:
            one = kind.removesuffix("s") if kind != "families" else "family"
            (print_json if json else print_pairs)({"kind": one, **found[name]})
            return
        names += found
    near = suggestion(name, names)
    hint = near if near.startswith("did") else "see `meanfield list`."
    raise UnknownNameError(f"There is no run and nothing else called `{name}`; {hint}")


def _show_run(path: Path, *, in_json: bool, in_toml: bool, check: bool) -> None:
    from meanfield.spec import parse
    from meanfield.storage import RunStore

    if in_json and in_toml:
        raise InvalidInputError("Give either `--json` or `--toml`.")
    store = RunStore.open(path)
    if check:
        store.check()
    spec = parse(store.spec, where=f"the spec of `{path}`")
    if in_toml:
        sys.stdout.write(spec.toml())
    elif in_json:
        print_json({**_about(store), "spec": store.spec})
    else:
        print_pairs({k: v for k, v in _about(store).items() if v is not None})
        sys.stdout.write(f"\n# keys\n{spec.toml()}")


def _about(store: Any) -> dict[str, Any]:
    ending = store.ending
    attrs = {key: value for key, value in store.attrs.items() if key != "spec"}
    unfinished = f"not finished; go on with `meanfield resume {store.path}`"
    return {
        "run": str(store.path),
        "ending": "interrupted" if ending is None else ending.name,
        "reason": unfinished if ending is None else ending.reason,
        "frames": store.frames,
        "t": None if ending is None else ending.stop_time,
        "t_star": None if ending is None else ending.t_star,
        "t_star_error": None if ending is None else ending.t_star_error,
        **attrs,
    }
