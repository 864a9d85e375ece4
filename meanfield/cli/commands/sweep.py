"""`meanfield sweep`: a phase diagram, by one process or many."""

import json as json_text
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from meanfield import runs
from meanfield._reading import nearby
from meanfield.cli.jobs._sweeping import Pace, print_sweep
from meanfield.cli.options._options import (
    MOST_USED,
    flag,
    merge_keys,
    told_by,
    with_spec_options,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._plugins import (
    begin,
    load_before_keys,
    load_measure_of,
    load_plugins_of,
)
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._console import RunProgress
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import Axis, RunSpec, parse, parse_axes

MOST_WORKERS = 1024  # each is a process

Options = Mapping[str, str | bool | None]


class Crew(NamedTuple):
    """The processes of this machine that work on a sweep.

    Attributes:
        size: how many, this one included.
        precision: in which they compute.
        plugins: files that each of them loads.
    """

    size: int
    precision: str
    plugins: list[Path]


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
    plugins = plugin or []
    if file is not None and file.is_dir():
        settings = {"over": over, "out": out, "preset": preset, "chunk": chunk}
        _refuse_settings(file, settings | options)
        folder, start = file, None
        precision, plugins = _open_sweep(file, plugins)
    else:
        folder = _folder(file, out, plugins)
        spec, axes = _new_sweep(file, preset, over, options, plugins)
        precision = _precision(spec.precision, axes)
        start = partial(runs.begin_sweep, spec, axes, chunk=chunk)
    _conclude(folder, start, Crew(workers, precision, plugins), in_json=json)


def _folder(file: Path | None, out: Path | None, plugins: Sequence[Path]) -> Path:
    """The folder of a new sweep, or of one that began with the same plugins.

    Raises:
        InputFileError: if a plugin has changed since, or there is nothing at `file`.
        InvalidInputError: if no folder is named.
    """
    if file is not None and not file.exists():
        raise InputFileError(
            f"There is neither a sweep nor a spec at `{file}`; {nearby(file)} "
            "A new sweep needs `--over` and `--out`."
        )
    if out is None:
        raise InvalidInputError("A sweep needs a folder for its cells: add `--out`.")
    if runs.is_sweep(out):
        runs.refuse_changed_plugins(out, plugins)
    return out


def _new_sweep(
    file: Path | None,
    preset: str | None,
    over: list[str] | None,
    options: Options,
    plugins: list[Path],
) -> tuple[RunSpec, tuple[Axis, ...]]:
    """The spec and the axes of a new sweep, its plugins loaded."""
    axes = parse_axes(*(over or []))
    options = {**options, **_heads(axes, options)}
    keys = merge_keys(file, preset, {}, options)
    precision = _precision(str(keys.get("precision", "double")), axes)
    load_before_keys(plugins, {"precision": precision})
    return parse(keys, where=told_by(file, options)), axes


def _open_sweep(folder: Path, plugins: list[Path]) -> tuple[str, list[Path]]:
    """The precision of a sweep on disk, and its plugins, loaded in it.

    Raises:
        InputFileError: if there is no sweep, or a plugin has changed.
    """
    load_measure_of(folder, plugins)
    cells = runs.SweepStore.open(folder).cells
    precision = _precision(cells.spec.precision, cells.axes)
    return precision, load_plugins_of(folder, plugins, precision)


def _refuse_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Refuses the keys of a sweep that has begun.

    Raises:
        InputFileError: if there is none.
        InvalidInputError: naming the first.
    """
    runs.SweepStore.open(folder)
    names = [name for name, value in settings.items() if value not in (None, False)]
    if names:
        raise InvalidInputError(
            f"`{folder}` is a sweep that has begun: its keys are fixed; leave out "
            f"`{flag(names[0])}`."
        )


def _heads(axes: Sequence[Axis], options: Options) -> dict[str, str]:
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
    return {
        key: value if isinstance(value, str) else json_text.dumps(value)
        for key, value in firsts.items()
        if value is not None
    }


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


def _conclude(
    folder: Path, start: Callable[..., None] | None, crew: Crew, *, in_json: bool
) -> None:
    """Works on a sweep with all of a crew until it is done, and reports.

    Args:
        folder: of the sweep.
        start: begins it, if that is still to be done.
        crew: who works on it.
        in_json: whether a program reads the report.

    Raises:
        KeyboardInterrupt: saying how to go on.
    """
    from meanfield.workers import Processes

    size, precision, plugins = crew
    open_session(precision)
    join = partial(runs.join_sweep, folder.absolute(), plugins=plugins)
    try:
        with (
            RunProgress(f"sweep {folder.name}") as progress,
            Processes(size - 1, ready=partial(begin, precision, plugins)) as helpers,
        ):
            if start is not None:
                start(out=folder, plugins=plugins)
            for _ in range(size - 1):
                helpers.give(join)
            pace = Pace(progress, helpers)
            result = runs.join_sweep(folder, report=pace, plugins=plugins)
    except KeyboardInterrupt as error:
        advice = f"go on with `meanfield sweep {folder}`."
        hint = advice if runs.is_sweep(folder) else "nothing is stored."
        raise type(error)(f"stopped; {hint}") from None
    print_sweep(result, in_json=in_json)
