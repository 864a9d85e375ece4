"""`meanfield compare`: one spec in several representations, and how far they part."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield.cli.options._completing import Preset
from meanfield.cli.options._options import (
    MOST_USED,
    Values,
    gathered,
    told_by,
    with_spec_options,
)
from meanfield.errors import InvalidInputError
from meanfield.spec import KEYS, parse


@with_spec_options
def compare(
    file: Path | None = None,
    /,
    *,
    measures: Annotated[str, Parameter(metavar="LIST")] = "points,gaussian,grid",
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
    preset: Preset = None,
    json: bool = False,
    plugin: list[Path] | None = None,
    measure: Annotated[str | None, Parameter(show=False)] = None,
    **options: str | bool | None,
) -> None:
    """Run tokens, Gaussian and density; say when and why they part.

    For example:
        meanfield compare --A=-1 --V 1 --t 1
        meanfield compare --attention sigmoid --A=-1 --t 0.5 --out sigmoid
        meanfield compare --d 2 --A=-1 --t 1 --measures points,gaussian

    Args:
        file: a TOML file of keys.
        measures: two or three of points, gaussian, grid; see `list measures`.
        out: folder for the runs, `comparison.json` and the picture; without it nothing
            is written.
        preset: a named set of keys; see `list presets`.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers what you add; may be repeated.
        measure: refused, and told of `--measures`.
        **options: the keys of the spec, all but `measure`.

    Raises:
        InvalidInputError: if a single measure is named.
    """
    if measure is not None:
        raise InvalidInputError(
            "`compare` runs several measures: name them with `--measures`, as in "
            "`--measures points,grid`."
        )
    from meanfield.cli.process._plugins import load_before_keys

    if plugin:
        load_before_keys(plugin, gathered(file, preset, {}, options))
    shared, own = _parted(gathered(file, preset, {}, options))
    spec = parse(shared, where=told_by(file, options))
    from meanfield.cli.process._session import open_session

    open_session(spec.precision)
    from meanfield.cli.jobs._comparison import conclude

    conclude(spec, measures, own, out, plugin or [], in_json=json)


def _parted(values: Values) -> tuple[Values, Values]:
    """The keys that all measures know, and those that only some do, such as `cells`."""
    own = {k: v for k, v in values.items() if k in KEYS and KEYS[k].only is not None}
    shared = {k: v for k, v in values.items() if k not in own and k != "measure"}
    return shared, own
