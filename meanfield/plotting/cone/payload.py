"""What the page of the cone is told: numbers, in as few bytes as the eye allows."""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting._figure.style import LIMIT_COLOUR
from meanfield.plotting.reading.observables import even_frames

from .limits import limit_outline
from .paths import (
    ConePath,
    by_ending,
    cone_height,
    cone_paths,
    drawn_paths,
    ring_heights,
)

# Coordinates are integers that run to this many steps at the height of the picture.
STEPS = 2**15 - 1


def payload(
    named: Mapping[str, xr.Dataset], most: int | None = None
) -> dict[str, object]:
    """The paths of datasets by name, and what explains them, ready for JSON.

    `rows` is base64 of little-endian int16, four to a point: x, y, z in steps of
    `height / STEPS`, and the time in steps of the span of `times`; `lengths` counts the
    points of each path. `runs` has, for each path, its index, its ending and the
    numbers of its tooltip, null where there is none; `names` that of its dataset.

    Args:
        named: datasets of order two.
        most: paths that are kept, evenly chosen; all if None.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` makes no sense.
    """
    members = [(name, p) for name, d in named.items() for p in cone_paths(d, "cone")]
    paths = [path for _, path in members]
    height, datasets = cone_height(paths), list(named.values())
    outline = limit_outline(datasets[0], height)
    kept = [members[i] for i in even_frames(len(members), most or len(members))]
    drawn = drawn_paths([path for _, path in kept], height)
    first = float(min(path.rows[:, 3].min() for path in paths))
    last = float(max(path.rows[:, 3].max() for path in paths))
    timed = all("time" in data.variables for data in datasets) and last > first
    groups = by_ending(paths)
    codes = list(groups)
    return {
        "height": height,
        "steps": STEPS,
        "times": [first, last] if timed else None,
        "rings": ring_heights(height),
        "tallest": max(float(path.points[:, 2].max()) for path in paths),
        "limit": None if outline is None else outline.tolist(),
        "limitColour": LIMIT_COLOUR,
        "endings": _entries(groups),
        "lengths": [len(path.rows) for path in drawn],
        "rows": _packed(drawn, height, (first, last)),
        "runs": [_facts(path, codes.index(path.ending.status)) for _, path in kept],
        "names": [name for name, _ in kept],
    }


def _entries(groups: Mapping[Status, Sequence[ConePath]]) -> list[dict[str, object]]:
    """What each ending looks like, and how many paths end so."""
    return [
        {
            "name": status.ending,
            "count": len(group),
            "colour": status.row.colour,
            "marker": status.row.marker,
        }
        for status, group in groups.items()
    ]


def _packed(
    paths: Sequence[ConePath], height: float, times: tuple[float, float]
) -> str:
    rows = np.concatenate([path.rows for path in paths])
    origin = np.array([0.0, 0.0, 0.0, times[0]])
    span = times[1] - times[0]
    sizes = np.array([height, height, height, span if span > 0 else 1.0])
    # A covariance is within the cone up to rounding, which must not wrap around.
    shares = np.clip((rows - origin) / sizes, -1.0, 1.0)
    return b64encode(np.rint(STEPS * shares).astype("<i2").tobytes()).decode()


def _facts(path: ConePath, ending: int) -> list[int | float | None]:
    """Index, ending, a, c, b at the start; t* and its error; the time of the end."""
    x, y, z = path.points[0]
    _, stop_time, t_star, error = path.ending
    numbers = [(z + x) / 2, y / 2, (z - x) / 2, t_star, error, stop_time]
    shown = [float(f"{value:.6g}") if np.isfinite(value) else None for value in numbers]
    return [path.run, ending, *shown]
