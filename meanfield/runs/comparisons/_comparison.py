"""Runs of one spec in several representations, and the gaps between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.runs.execution._execute import Result
from meanfield.runs.setup._setup import Setup
from meanfield.spec import RunSpec, parse
from meanfield.storage import RunStore

from ._gaps import Gap, SideRun, gap
from ._record import gaps_dataset
from ._sides import NO_KEYS, Report, Side, Sides, run_sides, sides

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Comparison:
    """Runs of one flow in several representations, and the gap of each pair.

    Attributes:
        sides: the spec in each representation, and one line on each omitted measure.
        side_runs: the run in each representation, by measure.
        gaps: the gap of each pair of runs.
        seconds: wall-clock time of each run, by measure.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 200, "A": -1.0, "t": 0.5, "frames": 3}
        >>> both = runs.compare(spec.parse(keys), ["points", "gaussian"], Path("both"))
        >>> [gap.pair for gap in both.gaps]
        [('points', 'gaussian')]
    """

    sides: Sides
    side_runs: dict[str, SideRun]
    gaps: tuple[Gap, ...]
    seconds: dict[str, float]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A line for each pair of runs: when the two begin to differ, and why."""
        return tuple(entry.verdict for entry in self.gaps)

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "spec": {m: path.side.spec.as_json() for m, path in self.side_runs.items()},
            "omitted": list(self.sides.omitted),
            "measures": {m: self._side(m) for m in self.side_runs},
            "pairs": [_as_json(entry) for entry in self.gaps],
        }

    def _side(self, measure: str) -> dict[str, Any]:
        path = self.side_runs[measure]
        estimate = path.outcome.error_estimate
        return {
            "label": path.side.label,
            "notes": list(path.side.notes),
            "ending": path.outcome.name,
            "t": path.outcome.time,
            "t_star": path.outcome.t_star,
            "seconds": self.seconds[measure],
            "outflow": outflow(path)[-1],
            "error_estimate": None if estimate is None else estimate._asdict(),
        }

    def outflow_of(self, pair: tuple[str, str]) -> dict[float, float]:
        """The mass lost from the grid up to each time; empty if no side is a grid."""
        if "grid" not in pair:
            return {}
        path = self.side_runs["grid"]
        return dict(zip(map(float, path.times), outflow(path), strict=True))

    def dataset(self) -> "xarray.Dataset":
        """The gaps by pair and time, for plotting; NaN where a pair has no frame."""
        return gaps_dataset([_as_json(entry) for entry in self.gaps])


def compare(
    spec: RunSpec,
    measures: Sequence[str],
    folder: File,
    *,
    extra_keys: Mapping[str, Any] = NO_KEYS,
    report: Report | None = None,
    plugins: Sequence[File] = (),
) -> Comparison:
    """Runs a spec in several representations and measures the gaps between them.

    Args:
        spec: the keys that all sides share; its own `measure` is ignored.
        measures: two or three names of measures.
        folder: where the runs are stored, as `MEASURE.zarr`.
        extra_keys: further keys, such as `cells`; each goes to the measures that use
            it.
        report: called with the name of each measure; the function that it returns is
            called with a `Progress` after each segment.
        plugins: plugin files; each run records their digests.

    Raises:
        InvalidInputError: if a key of `extra_keys` applies to none of the measures,
            fewer than two measures support the spec, or `folder` already holds a run
            of one of them.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if there is not enough memory or disk space, or `folder` cannot
            be written.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 200, "A": -1.0, "t": 0.5, "frames": 3}
        >>> both = runs.compare(spec.parse(keys), ["points", "gaussian"], Path("both"))
        >>> sorted(path.name for path in Path("both").glob("*.zarr"))
        ['gaussian.zarr', 'points.zarr']
    """
    side_group = sides(spec, measures, extra_keys)
    results = run_sides(side_group, folder, report, plugins)
    paths = {
        side.measure: _load_side(side, results[side.measure], folder)
        for side in side_group.members
    }
    gaps = [gap(paths[a], paths[b]) for a, b in combinations(paths, 2)]
    seconds = {measure: result.seconds for measure, result in results.items()}
    return Comparison(side_group, paths, tuple(gaps), seconds)


def outflow(path: SideRun) -> list[float]:
    """The mass that has left the grid, by frame; zero for other measures."""
    return [path.representation.outflow(mu) for mu in path.measures]


def _load_side(side: Side, result: Result, folder: File) -> SideRun:
    """The run of one side, read from its store."""
    store = RunStore.open(folder / f"{side.measure}.zarr")
    data, static = store.dataset().load(), store.static()
    setup = Setup(parse(store.spec), data.sizes["coord"])
    frames = (data.isel(time=i) for i in range(data.sizes["time"]))
    arrays = map(setup.representation.arrays, frames)
    measures = tuple(setup.restore(frame, static) for frame in arrays)
    times = np.asarray(data["time"].values, float)
    return SideRun(side, times, measures, result.outcome)


def _as_json(gap: Gap) -> dict[str, Any]:
    separation = gap.separation
    return {
        "pair": list(gap.pair),
        "verdict": gap.verdict,
        "reasons": list(gap.reasons),
        "separation": None if separation is None else separation._asdict(),
        "distance_method": gap.distance_method,
        "t": gap.times.tolist(),
        "mean_gap": gap.mean.tolist(),
        "covariance_gap": gap.covariance.tolist(),
        "distance": gap.distance.tolist(),
        "distance_error": gap.distance_error.tolist(),
        "mean_tolerance": gap.tolerances[0].tolist(),
        "covariance_tolerance": gap.tolerances[1].tolist(),
    }
