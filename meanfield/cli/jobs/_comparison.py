"""The part of `compare` that needs JAX."""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from meanfield import runs
from meanfield._writing import writing
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import finite, note, number, print_json, print_rows
from meanfield.plotting import draw_comparison, save
from meanfield.runs.comparing._record import write_comparison
from meanfield.spec import RunSpec

from ._report import ASSUMED

SHOWN = 6  # times of each pair in the table


def conclude(
    spec: RunSpec,
    measures: str,
    own: Mapping[str, Any],
    out: Path | None,
    plugins: Sequence[Path],
    *,
    in_json: bool,
) -> None:
    """Compares, prints, and with `out` writes runs, numbers and a picture."""
    names = [name.strip() for name in measures.split(",")]
    with _folder(out) as folder, _Progress() as progress:
        comparison = runs.compare(
            spec, names, folder, own=own, report=progress, plugins=plugins
        )
        progress.close()
        files = [] if out is None else _written(comparison, folder, spec)
    if in_json:
        print_json({"out": None if out is None else str(out), **comparison.as_json()})
    else:
        if spec.assumes_identity:
            note(f"scores: {ASSUMED}")
        _print(comparison)
    for file in files:
        note(f"wrote {file}")
    if out is None and not in_json:
        note("add --out FOLDER for the picture, the numbers and the runs")


class _Progress:
    """The progress of one side after another."""

    def __init__(self) -> None:
        self._open: RunProgress | None = None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, measure: str) -> RunProgress:
        self.close()
        self._open = RunProgress(measure).__enter__()
        return self._open

    def close(self) -> None:
        """Takes the last bar away."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open = None


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Where runs are stored: in `out`, or for as long as they are needed.

    Raises:
        ResourceError: if it cannot be made.
    """
    if out is None:
        with tempfile.TemporaryDirectory() as scratch:
            yield Path(scratch)
        return
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    yield out


def _written(comparison: runs.Comparison, folder: Path, spec: RunSpec) -> list[Path]:
    record = write_comparison(folder, finite(comparison.as_json()))
    states = {m: runs.dataset(folder / f"{m}.zarr") for m in comparison.paths}
    labels = {m: path.side.label for m, path in comparison.paths.items()}
    attrs = {"title": runs.subject(spec), "spec": spec.as_json()}
    gaps = comparison.dataset().assign_attrs(attrs)
    figure = draw_comparison(gaps, states, labels)
    return [record, *save(figure, folder / "comparison")]


def _print(comparison: runs.Comparison) -> None:
    """Notes on each side, a table of gaps, and a line for each pair."""
    for line in comparison.sides.left_out:
        note(line)
    for path in comparison.paths.values():
        for text in path.side.notes:
            note(f"{path.side.measure}: {text}")
    print_rows([row for gap in comparison.gaps for row in _rows(comparison, gap)])
    sys.stdout.write("\n")
    for gap in comparison.gaps:
        sys.stdout.write(f"{gap.verdict} Distance: {gap.how}.\n")


def _rows(comparison: runs.Comparison, gap: runs.Gap) -> list[dict[str, str]]:
    """Some times of a pair; gaps are relative to the spread of the second."""
    outflow = comparison.outflow_of(gap.pair)
    indices = np.unique(np.linspace(0, len(gap.times) - 1, SHOWN).astype(int)).tolist()
    return [
        {
            "pair": " – ".join(gap.pair),
            "t": number(float(gap.times[i]), 4),
            "mean": number(float(gap.mean[i]), 3),
            "covariance": number(float(gap.covariance[i]), 3),
            "distance": _with_error(gap, i),
            "outflow": number(outflow.get(float(gap.times[i])), 2),
        }
        for i in indices
    ]


def _with_error(gap: runs.Gap, i: int) -> str:
    value = number(float(gap.distance[i]), 3)
    error = float(gap.distance_error[i])
    return f"{value} ± {number(error, 1)}" if error > 0 else value
