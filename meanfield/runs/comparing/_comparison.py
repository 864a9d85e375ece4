"""A comparison: sides, their runs, and the gaps of every two of them."""

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

from ._gaps import Gap, Path, gap
from ._record import gaps_dataset
from ._sides import NONE, Report, Sides, run_sides, sides

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Comparison:
    """Representations of one flow beside each other.

    Attributes:
        sides: those that were run, and a line for each that was left out.
        paths: what each came to, by measure.
        gaps: of every two.
        seconds: spent on each, by measure.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 200, "A": -1.0, "t": 0.5, "frames": 3}
        >>> both = runs.compare(spec.parse(keys), ["points", "gaussian"], Path("both"))
        >>> [gap.pair for gap in both.gaps]
        [('points', 'gaussian')]
    """

    sides: Sides
    paths: dict[str, Path]
    gaps: tuple[Gap, ...]
    seconds: dict[str, float]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """When and why every two part, in a line each."""
        return tuple(each.verdict for each in self.gaps)

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "spec": {m: path.side.spec.as_json() for m, path in self.paths.items()},
            "left_out": list(self.sides.left_out),
            "measures": {m: self._side(m) for m in self.paths},
            "pairs": [_as_json(each) for each in self.gaps],
        }

    def _side(self, measure: str) -> dict[str, Any]:
        path = self.paths[measure]
        doubt = path.outcome.doubt
        return {
            "label": path.side.label,
            "notes": list(path.side.notes),
            "ending": path.outcome.name,
            "t": path.outcome.time,
            "t_star": path.outcome.t_star,
            "seconds": self.seconds[measure],
            "outflow": outflow(path)[-1],
            "doubt": None if doubt is None else doubt._asdict(),
        }

    def outflow_of(self, pair: tuple[str, str]) -> dict[float, float]:
        """The mass that the grid of a pair has lost, by time; none without a grid."""
        if "grid" not in pair:
            return {}
        path = self.paths["grid"]
        return dict(zip(map(float, path.times), outflow(path), strict=True))

    def dataset(self) -> "xarray.Dataset":
        """The gaps by pair and time, NaN where a pair has no frame; for pictures."""
        return gaps_dataset([_as_json(each) for each in self.gaps])


def compare(
    spec: RunSpec,
    measures: Sequence[str],
    folder: File,
    *,
    own: Mapping[str, Any] = NONE,
    report: Report | None = None,
    plugins: Sequence[File] = (),
) -> Comparison:
    """Runs a spec in several representations, stored in a folder, and measures gaps.

    Args:
        spec: what they share, whatever its own measure.
        measures: two or three names.
        folder: of the runs.
        own: further keys, each for those of the measures that know it, as `cells`.
        report: called with the name of each measure; what it returns, at each segment.
        plugins: recorded in the runs.

    Raises:
        InvalidInputError: if a key of `own` is known to no measure, fewer than two can
            take the spec, or a run of that name is in the folder.
        InputFileError: if a file that the spec names cannot be read.
        ResourceError: if memory, disk or folder will not do.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield import runs, spec
        >>> keys = {"n": 200, "A": -1.0, "t": 0.5, "frames": 3}
        >>> both = runs.compare(spec.parse(keys), ["points", "gaussian"], Path("both"))
        >>> sorted(path.name for path in Path("both").glob("*.zarr"))
        ['gaussian.zarr', 'points.zarr']
    """
    parties = sides(spec, measures, own)
    results = run_sides(parties, folder, report, plugins)
    paths = {
        s.measure: _path(parties, s.measure, results, folder) for s in parties.taken
    }
    gaps = [gap(paths[a], paths[b]) for a, b in combinations(paths, 2)]
    seconds = {measure: result.seconds for measure, result in results.items()}
    return Comparison(parties, paths, tuple(gaps), seconds)


def outflow(path: Path) -> list[float]:
    """The mass that has left a grid, by frame; zero for what has no box."""
    return [path.home.lost(mu) for mu in path.measures]


def _path(
    parties: Sides, measure: str, results: dict[str, Result], folder: File
) -> Path:
    """A run as it was stored."""
    side = next(s for s in parties.taken if s.measure == measure)
    store = RunStore.open(folder / f"{measure}.zarr")
    data, static = store.dataset().load(), store.static()
    setup = Setup(parse(store.spec), data.sizes["coord"])
    frames = (data.isel(time=i) for i in range(data.sizes["time"]))
    arrays = map(setup.representation.arrays, frames)
    measures = tuple(setup.restore(frame, static) for frame in arrays)
    times = np.asarray(data["time"].values, float)
    return Path(side, times, measures, results[measure].outcome)


def _as_json(gap: Gap) -> dict[str, Any]:
    parting = gap.parting
    return {
        "pair": list(gap.pair),
        "verdict": gap.verdict,
        "reasons": list(gap.reasons),
        "parting": None if parting is None else parting._asdict(),
        "distance_how": gap.how,
        "t": gap.times.tolist(),
        "mean_gap": gap.mean.tolist(),
        "covariance_gap": gap.covariance.tolist(),
        "distance": gap.distance.tolist(),
        "distance_error": gap.distance_error.tolist(),
        "mean_allowed": gap.allowed[0].tolist(),
        "covariance_allowed": gap.allowed[1].tolist(),
    }
