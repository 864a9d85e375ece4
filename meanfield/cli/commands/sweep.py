"""`meanfield sweep`: a phase diagram, by one process or many."""

import json as json_text
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield._reading import nearby
from meanfield.cli.options._completing import Preset
from meanfield.cli.options._options import (
    MOST_USED,
    gather,
    gathered,
    with_spec_options,
)
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import Axis, RunSpec, parse_axes

MOST_WORKERS = 1024  # each is a process


@with_spec_options
def sweep(
    file: Path | None = None,
    /,
    *,
    over: list[str] | None = None,
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
    preset: Preset = None,
    workers: int = 1,
    chunk: int | None = None,
    json: bool = False,
    plugin: list[Path] | None = None,
    **options: str | bool | None,
) -> None:
    """Integrate a flow at every point of a phase diagram.

    For example:
        meanfield sweep --measure gaussian --over A=-1:1:21,cov=0.2:2:21 --out phase
        meanfield sweep phase                 # go on with it, or help another
        meanfield plot phase --colour t_star

    Interrupted, it goes on with the same command, or with `meanfield sweep SWEEP`,
    which also works beside others, on any machine that sees the folder.

    Args:
        file: a TOML file of keys; or the folder of a sweep, to go on with it.
        over: an axis: KEY=START:STOP:COUNT, KEY=START:STOP:COUNT:log or KEY=V1|V2; KEY
            may be A[0,1], options.NAME, drift.NAME or drift.M[0,1]; several with commas
            between, or by repeating --over.
        out: folder of the sweep; its table.csv has a row for each cell.
        preset: a named set of keys; see `list presets`.
        workers: processes on this machine.
        chunk: cells computed at once; by default up to 64 Gaussians or small clouds,
            or one large cloud.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers what you add; may be repeated.
        **options: the keys of the spec.
    """
    _check_positive(workers=workers, chunk=chunk)
    if file is not None and file.is_dir():
        settings = {"over": over, "out": out, "preset": preset, "chunk": chunk}
        _refuse_settings(file, {**settings, **options})
        precision, plugins = _begun(file, plugin)
        folder, work = file, None
    else:
        _check_presence(file)
        folder = _folder(out)
        _refuse_changed(folder, plugin or [])
        spec, axes = _asked(file, preset, over, options, plugin)
        precision, plugins = _precision(spec.precision, axes), plugin or []
        work = spec, axes, folder, chunk
    from meanfield.cli.process._session import open_session

    open_session(precision)
    from meanfield.cli.jobs._sweeping import Crew, Work, conclude

    crew = Crew(workers, precision, plugins)
    conclude(folder, Work(*work) if work else None, crew, in_json=json)


def _asked(
    file: Path | None,
    preset: str | None,
    over: list[str] | None,
    options: Mapping[str, str | bool | None],
    plugins: list[Path] | None,
) -> tuple[RunSpec, tuple[Axis, ...]]:
    """The spec and the axes of a new sweep, its plugins loaded."""
    axes = parse_axes(*(over or []))
    options = {**options, **_heads(axes, options)}
    if plugins:
        from meanfield.cli.process._plugins import load_before_keys

        entry = gathered(file, preset, {}, options).get("precision", "double")
        load_before_keys(plugins, {"precision": _precision(str(entry), axes)})
    return gather(file, preset, {}, options), axes


def _check_presence(file: Path | None) -> None:
    """Raises unless there is something at `file`, if it is named.

    Raises:
        InputFileError: as for a sweep that nobody has begun yet, or a misspelt one.
    """
    if file is not None and not file.exists():
        raise InputFileError(
            f"There is neither a sweep nor a spec at `{file}`; {nearby(file)} "
            "A new sweep needs `--over` and `--out`."
        )


def _begun(folder: Path, plugins: list[Path] | None) -> tuple[str, list[Path]]:
    """The precision of a sweep on disk, and its plugins, loaded in it.

    Raises:
        InputFileError: if there is no sweep, or a plugin has changed.
    """
    from meanfield import runs
    from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
    from meanfield.cli.process._session import open_session

    load_measure_of(folder, plugins)
    cells = runs.SweepStore.open(folder).cells
    precision = _precision(cells.spec.precision, cells.axes)
    open_session(precision)
    return precision, load_plugins_of(folder, plugins)


def _refuse_changed(folder: Path, plugins: Sequence[Path]) -> None:
    """Refuses plugins that have changed since a sweep in `folder` began, if one has.

    Raises:
        InputFileError: naming the plugin.
    """
    from meanfield import runs

    if runs.is_sweep(folder):
        runs.refuse_changed_plugins(folder, plugins)


def _refuse_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Refuses the keys of a sweep that has begun.

    Raises:
        InputFileError: if there is none.
        InvalidInputError: naming the first.
    """
    from meanfield import runs

    runs.SweepStore.open(folder)
    names = [name for name, value in settings.items() if value not in (None, False)]
    if names:
        raise InvalidInputError(
            f"`{folder}` is a sweep that has begun: its keys are fixed; leave out "
            f"`--{names[0].replace('_', '-')}`."
        )


def _heads(
    axes: Sequence[Axis], options: Mapping[str, str | bool | None]
) -> dict[str, str]:
    """The first value of each axis, as an option: keys it replaces then give way.

    Raises:
        InvalidInputError: if the key of an axis is an option, too.
    """
    whole = [axis for axis in axes if axis.is_whole]
    for axis in whole:
        if options.get(axis.key):
            raise InvalidInputError(
                f"`{axis.key}` is given twice: as an option, and in `--over`; leave "
                "out the option."
            )
    firsts = {axis.key: axis.values[0] for axis in whole}
    text = lambda value: value if isinstance(value, str) else json_text.dumps(value)
    return {key: text(value) for key, value in firsts.items() if value is not None}


def _folder(out: Path | None) -> Path:
    if out is None:
        raise InvalidInputError("A sweep needs a folder for its cells: add `--out`.")
    return out


def _precision(precision: str, axes: Sequence[Axis]) -> str:
    """The finest format that a cell needs, that of the spec unless it varies."""
    precisions = [
        value for axis in axes if axis.key == "precision" for value in axis.values
    ]
    return "double" if "double" in (precisions or [precision]) else "single"


def _check_positive(**numbers: int | None) -> None:
    workers = numbers.get("workers") or 0
    if workers > MOST_WORKERS:
        raise InvalidInputError(
            f"`--workers` is at most {MOST_WORKERS} on one machine; got {workers}."
        )
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InvalidInputError(f"`--{name}` must be at least 1; got {number}.")
