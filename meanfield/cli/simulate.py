"""`meanfield simulate`: integrate a spec."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ._options import gather, with_spec_options


@with_spec_options
def simulate(
    file: Path | None = None,
    /,
    *,
    out: Path | None = None,
    preset: str | None = None,
    start_from: Annotated[Path | None, Parameter(name="--from")] = None,
    json: bool = False,
    dry_run: bool = False,
    plugin: list[Path] | None = None,
    **options: str | None,
) -> None:
    """Integrate a token flow: particles or Gaussians under attention.

    Keys come from a preset, a TOML file and options of the same names; the later win.

    Args:
        file: a TOML file of keys.
        out: folder to store the run in; without it nothing is written.
        preset: a named set of keys; see `list presets`.
        start_from: start from a frame of this run, at the time `--at`; its keys hold
            unless changed.
        json: print one JSON object on stdout.
        dry_run: print what the run would take, and refuse what cannot be.
        plugin: a Python file that registers your own attention; may be repeated.
    """
    base = {} if start_from is None else _keys_of(start_from)
    spec = gather(file, preset, base, options)
    from ._session import load_plugins, open_session

    open_session(spec.precision)
    load_plugins(plugin)
    from ._simulate import dry, integrate

    if dry_run:
        dry(spec, out, in_json=json)
    else:
        integrate(spec, out, in_json=json)


def _keys_of(run: Path) -> dict:
    from meanfield.storage import RunStore

    keys = RunStore.open(run).spec
    return {**{k: v for k, v in keys.items() if k != "times"}, "source": str(run)}
