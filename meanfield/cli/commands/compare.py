"""`meanfield compare`: distances of one spec in several representations, or of runs."""

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
from meanfield.cli.jobs._distances import are_runs, compare_runs
from meanfield.cli.jobs._texts import ASSUMPTION
from meanfield.cli.options._options import (
    MOST_USED,
    add_spec_options,
    key_source,
    merge_keys,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._plugins import load_before_keys
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import finite, note, number, print_json, print_rows
from meanfield.errors import InvalidInputError
from meanfield.spec import KEYS, RunSpec, parse

MEASURES = "points,gaussian,grid"
OUT_HINT = "add --out FOLDER for the picture, the numbers and the runs"
N_TIMES = 6  # number of time points in the table, for each pair of measures
MEASURES_HINT = """`compare` runs several measures: name them with `--measures`, as in \
`--measures points,grid`."""


@add_spec_options
def compare(
    *files: Annotated[Path, Parameter(name="FILE|RUN")],
    measures: Annotated[str | None, Parameter(metavar="LIST")] = None,
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
    preset: Preset = None,
    json: bool = False,
    plugin: list[Path] | None = None,
    measure: Annotated[str | None, Parameter(show=False)] = None,
    **options: str | bool | None,
) -> None:
    """Compare tokens, Gaussian and density over time, or stored runs.

    For example:
        meanfield compare --A=-1 --V 1 --t 1
        meanfield compare --attention sigmoid --A=-1 --t 0.5 --out sigmoid
        meanfield compare --d 2 --A=-1 --t 1 --measures points,gaussian
        meanfield compare softmax.zarr l2.zarr sinkhorn.zarr --out distances

    Args:
        files: TOML file of keys, or the folders of stored runs, whose distances are
            computed: Wasserstein, sliced, of the moments, and Sinkhorn divergence.
        measures: two or three measures; see `list measures` [default:
            points,gaussian,grid].
        out: folder for the picture, the numbers and the new runs; nothing is written if
            absent.
        preset: named set of keys; see `list presets`.
        json: JSON object on stdout instead of tables (flag).
        plugin: Python file that registers extensions; may be repeated.
        measure: hidden option that raises an error naming `--measures`.
        **options: keys of the spec, except `measure`.

    Raises:
        InvalidInputError: if `measure` is given.
    """
    if are_runs(files):
        keys = {"measure": measure, "measures": measures, "preset": preset, **options}
        compare_runs(files, keys, out=out, json=json, plugins=plugin)
        return
    if measure is not None:
        raise InvalidInputError(MEASURES_HINT)
    file = files[0] if files else None
    keys = merge_keys(file, preset, {}, options)
    load_before_keys(plugin, keys)
    common_keys, measure_keys = _split_keys(keys)
    spec = parse(common_keys, where=key_source(file, options))
    open_session(spec.precision)
    comparison, lines = _comparison(spec, measures, measure_keys, out, plugin or [])
    if json:
        print_json({"out": None if out is None else str(out), **comparison.as_json()})
    else:
        _print(comparison, [f"scores: {ASSUMPTION}"] if spec.assumes_identity else [])
    for line in lines or ([] if json else [OUT_HINT]):
        note(line)


def _split_keys(keys: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates keys for all measures from keys for only some, such as `cells`.

    The latter are passed only to measures that use them. The key `measure` is dropped.
    """
    rows = {key: KEYS[key] for key in keys if key in KEYS}
    names = {key for key, row in rows.items() if row.required_measure is not None}
    common_keys = {k: v for k, v in keys.items() if k not in {*names, "measure"}}
    return common_keys, {k: v for k, v in keys.items() if k in names}


def _comparison(
    spec: RunSpec,
    measures: str | None,
    measure_keys: Mapping[str, Any],
    out: Path | None,
    plugins: Sequence[Path],
) -> tuple["runs.Comparison", list[str]]:
    """The comparison, and a line of text for each file that was written to `out`.

    Raises:
        ResourceError: if the folder `out` cannot be created.
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

        names = [name.strip() for name in (measures or MEASURES).split(",")]
        comparison = runs.compare(
            spec,
            names,
            Path(folder),
            extra_keys=measure_keys,
            report=report,
            plugins=plugins,
        )
        bars.close()
        attrs = {"title": runs.subject(spec), "spec": spec.as_json()}
        files = [] if out is None else _write(comparison, out, attrs)
        return comparison, [f"wrote {file}" for file in files]


def _write(
    comparison: "runs.Comparison", folder: Path, attrs: Mapping[str, Any]
) -> list[Path]:
    from meanfield.runs.comparisons._record import write_comparison

    record = write_comparison(folder, finite(comparison.as_json()))
    states = {m: runs.dataset(folder / f"{m}.zarr") for m in comparison.side_runs}
    labels = {m: path.side.label for m, path in comparison.side_runs.items()}
    gaps = comparison.dataset().assign_attrs(attrs)
    figure = plotting.draw_comparison(gaps, states, labels)
    return [record, *plotting.save(figure, folder / "comparison")]


def _print(comparison: "runs.Comparison", assumptions: list[str]) -> None:
    """Prints notes on each measure, a table of gaps, and a verdict for each pair."""
    for line in (*assumptions, *comparison.sides.omitted):
        note(line)
    for path in comparison.side_runs.values():
        for text in path.side.notes:
            note(f"{path.side.measure}: {text}")
    print_rows([row for gap in comparison.gaps for row in _rows(comparison, gap)])
    sys.stdout.write("\n")
    for gap in comparison.gaps:
        sys.stdout.write(f"{gap.verdict} Distance: {gap.distance_method}.\n")


def _rows(comparison: "runs.Comparison", gap: "runs.Gap") -> list[dict[str, str]]:
    """Table rows with the gaps of a pair, in units of the second measure's spread."""
    outflow = comparison.outflow_of(gap.pair)
    indices = np.unique(np.linspace(0, len(gap.times) - 1, N_TIMES).astype(int))
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
