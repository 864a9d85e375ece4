"""`meanfield sweep`: a phase diagram, by one process or many."""

import json as json_text
from collections.abc import Mapping, Sequence
from pathlib import Path

from meanfield.cli._options import gather, gathered, with_spec_options
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import Axis, RunSpec, parse_axes

MOST_WORKERS = 1024  # each is a process


@with_spec_options
def sweep(
    file: Path | None = None,
    /,
    *,
    over: list[str] | None = None,
    out: Path | None = None,
    preset: str | None = None,
    workers: int = 1,
    chunk: int | None = None,
    json: bool = False,
    plugin: list[Path] | None = None,
    **options: str | bool | None,
) -> None:
    """Integrate a flow for every combination of values: a phase diagram.

    Interrupted, it goes on with the same command, or with `meanfield sweep SWEEP`,
    which also works beside others, on any machine that sees the folder.

    Args:
        file: a TOML file of keys; or the folder of a sweep, to go on with it.
        over: an axis: KEY=START:STOP:COUNT, KEY=START:STOP:COUNT:log, KEY=V1|V2 or
            A[0,1]=…; several with commas between, or by repeating --over.
        out: folder of the sweep; its table.csv has a row for each cell.
        preset: a named set of keys; see `list presets`.
        workers: processes on this machine.
        chunk: cells computed at once; by default up to 64 Gaussians, or one cloud.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers what you add; may be repeated.
        **options: the keys of the spec.
    """
    _check_positive(workers=workers, chunk=chunk)
    from meanfield.cli.process._plugins import (
        load_before_keys,
        load_measure_of,
        load_plugins_of,
    )

    if file is not None and file.is_dir():
        load_measure_of(file, plugin)
        settings = {"over": over, "out": out, "preset": preset, "chunk": chunk}
        spec, axes = _begun(file, {**settings, **options})
        folder, is_new = file, False
    else:
        if file is not None and not file.exists():
            raise InputFileError(f"There is neither a spec nor a sweep at `{file}`.")
        axes = parse_axes(*(over or []))
        options = {**options, **_heads(axes, options)}
        if plugin:
            entry = gathered(file, preset, {}, options).get("precision", "double")
            load_before_keys(plugin, {"precision": _precision(str(entry), axes)})
        spec = gather(file, preset, {}, options)
        folder, is_new = _folder(out), True
    from meanfield.cli.process._session import open_session

    precision = _precision(spec.precision, axes)
    open_session(precision)
    plugins = (plugin or []) if is_new else load_plugins_of(folder, plugin)
    from meanfield.cli.jobs._sweeping import Crew, Work, conclude

    work = Work(spec, axes, folder, chunk) if is_new else None
    conclude(folder, work, Crew(workers, precision, plugins), in_json=json)


def _begun(
    folder: Path, settings: Mapping[str, object]
) -> tuple[RunSpec, tuple[Axis, ...]]:
    """The spec and the axes of a sweep on disk.

    Raises:
        InputFileError: if there is none.
        InvalidInputError: if keys are given: it has its own.
    """
    from meanfield import runs

    cells = runs.SweepStore.open(folder).cells
    names = [name for name, value in settings.items() if value]
    if names:
        raise InvalidInputError(
            f"`{folder}` is a sweep that has begun: its keys are fixed; leave out "
            f"`--{names[0].replace('_', '-')}`."
        )
    return cells.spec, cells.axes


def _heads(
    axes: Sequence[Axis], options: Mapping[str, str | bool | None]
) -> dict[str, str]:
    """The first value of each axis, as an option: keys it replaces then give way.

    Raises:
        InvalidInputError: if the key of an axis is an option, too.
    """
    whole = [axis for axis in axes if axis.entry is None]
    for axis in whole:
        if options.get(axis.key):
            raise InvalidInputError(
                f"`{axis.key}` is given twice: as an option, and in `--over`."
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
