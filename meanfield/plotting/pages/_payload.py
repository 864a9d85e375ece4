"""What the page of the cone is told: numbers, in as few bytes as the eye allows."""

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
import xarray as xr

from meanfield.endings import Status
from meanfield.plotting._figure.style import LIMIT_COLOUR
from meanfield.plotting.cone.limits import limit_outline
from meanfield.plotting.cone.paths import (
    ConePath,
    by_ending,
    cone_height,
    cone_paths,
    drawn_paths,
    ring_heights,
)

# Coordinates are integers that run to this many steps at the height of the picture.
STEPS = 2**15 - 1


def payload(dataset: xr.Dataset) -> dict[str, object]:
    """The paths and what explains them, ready for JSON.

    `rows` is base64 of little-endian int16, four to a point: x, y, z in steps of
    `height / STEPS`, and the time in steps of the span of `times`; `lengths` counts the
    points of each path. `runs` has, for each path, its index, its ending and the
    numbers of its tooltip, null where there is none.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` makes no sense.
    """
    paths = cone_paths(dataset, "cone")
    height = cone_height(paths)
    outline = limit_outline(dataset, height)
    drawn = drawn_paths(paths, height)
    first, last = _span(paths)
    timed = "time" in dataset.variables and last > first
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
        "endings": [_entry(status, len(found)) for status, found in groups.items()],
        "lengths": [len(path.rows) for path in drawn],
        "rows": _packed(drawn, height, (first, last)),
        "runs": [_facts(path, codes.index(path.ending.status)) for path in paths],
    }


def _entry(status: Status, count: int) -> dict[str, str | int]:
    own = {"name": status.ending, "count": count}
    return {**own, "colour": status.row.colour, "marker": status.row.marker}


def _span(paths: Sequence[ConePath]) -> tuple[float, float]:
    """The first and the last time of all paths."""
    first = min(path.rows[:, 3].min() for path in paths)
    return float(first), float(max(path.rows[:, 3].max() for path in paths))


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
