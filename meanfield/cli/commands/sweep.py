"""`meanfield sweep`: phase diagrams, computed by one process or several."""

import json as json_text
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from meanfield import runs
from meanfield._reading import similar_name
from meanfield.cli.jobs._sweeping import Pace, print_sweep
from meanfield.cli.options._options import (
    MOST_USED,
    add_spec_options,
    flag,
    key_source,
    merge_keys,
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
from meanfield.cli.terminal._output import note, print_json
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.spec import Axis, RunSpec, parse, parse_axes

MOST_WORKERS = 1024  # largest number of worker processes

Options = Mapping[str, str | bool | None]


class Workers(NamedTuple):
    """Worker processes of a sweep on this machine.

    Attributes:
        size: number of processes, including this one.
        precision: floating-point precision of all processes.
        plugins: plugin files that each process loads.
    """

    size: int
    precision: str
    plugins: list[Path]


@add_spec_options
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
        meanfield sweep phase                 # resume or join it
        meanfield plot phase --colour t_star

    The same command, or `meanfield sweep SWEEP`, resumes an interrupted sweep. Several
    processes can work on one sweep, on all machines that share the folder.

    Args:
        file: TOML file of keys, or the folder of a sweep to resume or join.
        over: axis of the sweep: KEY=START:STOP:COUNT, KEY=START:STOP:COUNT:log or
            KEY=V1|V2, where KEY may be A[0,1], options.NAME, drift.NAME or
            drift.M[0,1]; separate several axes by commas, or repeat --over.
        out: folder of the sweep, whose table.csv has a row for each cell.
        preset: named set of keys; see `list presets`.
        workers: number of worker processes on this machine; 0 only makes the folder,
            which the jobs of an array then join.
        chunk: number of cells in a batch; by default up to 64 Gaussians or small
            clouds, or one large cloud.
        json: JSON object on stdout instead of the report (flag).
        plugin: Python file that registers extensions; may be repeated.
        **options: keys of the spec.
    """
    _check_numbers(workers, chunk)
    plugins = plugin or []
    if file is not None and file.is_dir():
        settings = {"over": over, "out": out, "preset": preset, "chunk": chunk}
        _check_no_settings(file, settings | options)
        folder, start = file, None
        precision, plugins = _open_sweep(file, plugins)
    else:
        folder = _folder(file, out, plugins)
        spec, axes = _new_sweep(file, preset, over, options, plugins)
        precision = _precision(spec.precision, axes)
        begin_sweep = partial(runs.begin_sweep, spec, axes, chunk=chunk)
        start = partial(begin_sweep, out=folder, plugins=plugins)
    _run_sweep(folder, start, Workers(workers, precision, plugins), json=json)


def _folder(file: Path | None, out: Path | None, plugins: Sequence[Path]) -> Path:
    """The folder of a new sweep, or of a stored sweep with unchanged plugins.

    Raises:
        InputFileError: if a plugin of the sweep has changed, or `file` does not exist.
        InvalidInputError: if no folder is given.
    """
    if file is not None and not file.exists():
        raise InputFileError(
            f"There is neither a sweep nor a spec at `{file}`; {similar_name(file)} "
            "A new sweep needs `--over` and `--out`."
        )
    if out is None:
        raise InvalidInputError("A sweep needs a folder for its cells: add `--out`.")
    if runs.is_sweep(out):
        runs.check_plugins_unchanged(out, plugins)
    return out


def _new_sweep(
    file: Path | None,
    preset: str | None,
    over: list[str] | None,
    options: Options,
    plugins: list[Path],
) -> tuple[RunSpec, tuple[Axis, ...]]:
    """The spec and axes of a new sweep, after loading its plugins."""
    axes = parse_axes(*(over or []))
    options = {**options, **_first_values(axes, options)}
    keys = merge_keys(file, preset, {}, options)
    precision = _precision(str(keys.get("precision", "double")), axes)
    load_before_keys(plugins, {"precision": precision})
    return parse(keys, where=key_source(file, options)), axes


def _open_sweep(folder: Path, plugins: list[Path]) -> tuple[str, list[Path]]:
    """Loads the plugins of a stored sweep; returns its precision and these plugins.

    Raises:
        InputFileError: if there is no sweep, or a plugin has changed.
    """
    load_measure_of(folder, plugins)
    cells = runs.SweepStore.open(folder).cells
    precision = _precision(cells.spec.precision, cells.axes)
    return precision, load_plugins_of(folder, plugins, precision)


def _check_no_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Raises if options are given for a stored sweep, whose keys are fixed.

    Raises:
        InputFileError: if `folder` is not a sweep.
        InvalidInputError: naming the first option.
    """
    runs.SweepStore.open(folder)
    names = [name for name, value in settings.items() if value not in (None, False)]
    if names:
        raise InvalidInputError(
            f"`{folder}` is a sweep that has begun: its keys are fixed. Leave out "
            f"`{flag(names[0])}`."
        )


def _first_values(axes: Sequence[Axis], options: Options) -> dict[str, str]:
    """The first value of each axis, as an option that overrides the file and preset.

    Raises:
        InvalidInputError: if the key of an axis is also given as an option.
    """
    firsts = {axis.key: axis.values[0] for axis in axes if axis.is_whole}
    for key in filter(options.get, firsts):
        raise InvalidInputError(
            f"`{key}` is given twice: as an option, and in `--over`; leave out the "
            "option."
        )
    return {
        key: value if isinstance(value, str) else json_text.dumps(value)
        for key, value in firsts.items()
        if value is not None
    }


def _precision(precision: str, axes: Sequence[Axis]) -> str:
    """Highest precision among the cells: of the axis `precision`, or of the spec."""
    precisions = [v for axis in axes if axis.key == "precision" for v in axis.values]
    return "double" if "double" in (precisions or [precision]) else "single"


def _check_numbers(workers: int, chunk: int | None) -> None:
    if not 0 <= workers <= MOST_WORKERS:
        raise InvalidInputError(
            f"`--workers` must be from 0 to {MOST_WORKERS}; got {workers}."
        )
    if chunk is not None and chunk < 1:
        raise InvalidInputError(f"`--chunk` must be at least 1; got {chunk}.")


def _run_sweep(
    folder: Path, start: Callable[[], None] | None, workers: Workers, *, json: bool
) -> None:
    """Computes a sweep with all workers and prints the report.

    Args:
        folder: folder of the sweep.
        start: function that creates the sweep; `None` if the sweep exists.
        workers: worker processes.
        json: whether to print JSON instead of the report.

    Raises:
        KeyboardInterrupt: with advice on resuming.
    """
    from meanfield.workers import Processes

    size, precision, plugins = workers
    open_session(precision)
    join = partial(runs.join_sweep, folder.absolute(), plugins=plugins)
    initializer = partial(begin, precision, plugins)
    try:
        with (
            RunProgress(f"sweep {folder.name}") as progress,
            Processes(max(size - 1, 0), initializer=initializer) as helpers,
        ):
            if start is not None:
                start()
            if size == 0:
                note(f"ready: each job runs `meanfield sweep {folder}`")
                return print_json({"store": str(folder)}) if json else None
            for _ in range(size - 1):
                helpers.submit(join)
            pace = Pace(progress, helpers)
            result = runs.join_sweep(folder, report=pace, plugins=plugins)
    except KeyboardInterrupt as error:
        advice = f"go on with `meanfield sweep {folder}`."
        hint = advice if runs.is_sweep(folder) else "nothing is stored."
        raise type(error)(f"stopped; {hint}") from None
    return print_sweep(result, json=json)
