"""`meanfield compare`: one spec in several representations, and how far they part."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield._writing import writing
from meanfield.cli.jobs._words import ASSUMED
from meanfield.cli.options._options import (
    MOST_USED,
    merge_keys,
    told_by,
    with_spec_options,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._plugins import load_before_keys
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import finite, note, number, print_json, print_rows
from meanfield.errors import InvalidInputError
from meanfield.spec import KEYS, RunSpec, parse

SHOWN = 6  # times of each pair in the table
SEVERAL = """`compare` runs several measures: name them with `--measures`, as in \
`--measures points,grid`."""


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
        raise InvalidInputError(SEVERAL)
    keys = merge_keys(file, preset, {}, options)
    load_before_keys(plugin, keys)
    # Keys that only some measures know, such as `cells`, stay with these.
    own = {k: v for k, v in keys.items() if k in KEYS and KEYS[k].only is not None}
    shared = {k: v for k, v in keys.items() if k not in own and k != "measure"}
    spec = parse(shared, where=told_by(file, options))
    open_session(spec.precision)
    comparison, lines = _comparison(spec, measures, own, out, plugin or [])
    if json:
        print_json({"out": None if out is None else str(out), **comparison.as_json()})
    else:
        _print(comparison, [f"scores: {ASSUMED}"] if spec.assumes_identity else [])
        lines = lines or ["add --out FOLDER for the picture, the numbers and the runs"]
    for line in lines:
        note(line)


def _comparison(
    spec: RunSpec,
    measures: str,
    own: Mapping[str, Any],
    out: Path | None,
    plugins: Sequence[Path],
) -> tuple["runs.Comparison", list[str]]:
    """The comparison, with progress, and a line on each file that it wrote to `out`.

    Raises:
        ResourceError: if the folder `out` cannot be made.
    """
    if out is not None:
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory() if out is None else nullcontext(out) as folder,
        ExitStack() as bars,
    ):

        def report(measure: str) -> RunProgress:
            bars.close()
            return bars.enter_context(RunProgress(measure))

        names = [name.strip() for name in measures.split(",")]
        comparison = runs.compare(
            spec, names, Path(folder), own=own, report=report, plugins=plugins
        )
        bars.close()
        attrs = {"title": runs.subject(spec), "spec": spec.as_json()}
        files = [] if out is None else _write(comparison, out, attrs)
        return comparison, [f"wrote {file}" for file in files]


def _write(
    comparison: "runs.Comparison", folder: Path, attrs: Mapping[str, Any]
) -> list[Path]:
    from meanfield.runs.comparing._record import write_comparison

    record = write_comparison(folder, finite(comparison.as_json()))
    states = {m: runs.dataset(folder / f"{m}.zarr") for m in comparison.paths}
    labels = {m: path.side.label for m, path in comparison.paths.items()}
    gaps = comparison.dataset().assign_attrs(attrs)
    figure = plotting.draw_comparison(gaps, states, labels)
    return [record, *plotting.save(figure, folder / "comparison")]


def _print(comparison: "runs.Comparison", assumptions: list[str]) -> None:
    """Notes on each side, a table of gaps, and a line for each pair."""
    for line in (*assumptions, *comparison.sides.left_out):
        note(line)
    for path in comparison.paths.values():
        for text in path.side.notes:
            note(f"{path.side.measure}: {text}")
    print_rows([row for gap in comparison.gaps for row in _rows(comparison, gap)])
    sys.stdout.write("\n")
    for gap in comparison.gaps:
        sys.stdout.write(f"{gap.verdict} Distance: {gap.how}.\n")


def _rows(comparison: "runs.Comparison", gap: "runs.Gap") -> list[dict[str, str]]:
    """Some times of a pair; gaps are relative to the spread of the second."""
    outflow = comparison.outflow_of(gap.pair)
    indices = np.unique(np.linspace(0, len(gap.times) - 1, SHOWN).astype(int)).tolist()
    numbers = [number(float(e), 1) if e > 0 else "" for e in gap.distance_error]
    errors = [f" ± {text}" if text else "" for text in numbers]
    return [
        {
            "pair": " – ".join(gap.pair),
            "t": number(float(gap.times[i]), 4),
            "mean": number(float(gap.mean[i]), 3),
            "covariance": number(float(gap.covariance[i]), 3),
            "distance": number(float(gap.distance[i]), 3) + errors[i],
            "outflow": number(outflow.get(float(gap.times[i])), 2),
        }
        for i in indices
    ]
