"""The data of the cone's page as compact JSON, rounded to less than a pixel."""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from meanfield.plotting._figure.style import LIMIT_COLOUR
from meanfield.plotting.reading.observables import even_frames

from .paths import (
    ConePath,
    clip_paths,
    cone_height,
    cone_paths,
    group_by_ending,
    ring_heights,
)
from .surface import limit_outline

# Coordinates are stored as integers: the height of the picture is `STEPS` units.
STEPS = 2**15 - 1


def payload(
    named_datasets: Mapping[str, xr.Dataset], max_paths: int | None = None
) -> dict[str, object]:
    """The paths of named datasets with their legend, as data for JSON.

    `rows` is base64 of little-endian int16, four per point: x, y, z in steps of
    `height / STEPS`, and the time in steps of 1/`STEPS` of the span of `times`.
    `lengths` has the number of points of each path. `runs` has, for each path, its
    index, its ending and the numbers of its tooltip, with null for missing numbers.
    `names` has the name of the dataset of each path.

    Args:
        named_datasets: datasets of 2 × 2 covariances, by name.
        max_paths: largest number of evenly spaced paths; all if None.

    Raises:
        InvalidInputError: if the dimension is not two, or `limit` is invalid.
    """
    members = [
        (name, p) for name, d in named_datasets.items() for p in cone_paths(d, "cone")
    ]
    paths = [path for _, path in members]
    height, datasets = cone_height(paths), list(named_datasets.values())
    outline = limit_outline(datasets[0], height)
    sample = [members[i] for i in even_frames(len(members), max_paths or len(members))]
    clipped_paths = clip_paths([path for _, path in sample], height)
    times = np.concatenate([path.rows[:, 3] for path in paths])
    first, last = float(times.min()), float(times.max())
    has_times = all("time" in data.variables for data in datasets) and last > first
    groups = group_by_ending(paths)
    endings = [{**mark._asdict(), "count": len(g)} for mark, g in groups.items()]
    return {
        "height": height,
        "steps": STEPS,
        "times": [first, last] if has_times else None,
        "rings": ring_heights(height),
        "tallest": max(float(path.points[:, 2].max()) for path in paths),
        "limit": None if outline is None else outline.tolist(),
        "limitColour": LIMIT_COLOUR,
        "endings": endings,
        "lengths": [len(path.rows) for path in clipped_paths],
        "rows": _encode_rows(clipped_paths, height, (first, last)),
        "runs": [_facts(path, list(groups).index(path.mark)) for _, path in sample],
        "names": [name for name, _ in sample],
    }


def _encode_rows(
    paths: Sequence[ConePath], height: float, times: tuple[float, float]
) -> str:
    rows = np.concatenate([path.rows for path in paths])
    origin = np.array([0.0, 0.0, 0.0, times[0]])
    span = times[1] - times[0]
    sizes = np.array([height, height, height, span if span > 0 else 1.0])
    # Rounding can put a covariance outside the cone, so clip before storing integers.
    shares = np.clip((rows - origin) / sizes, -1.0, 1.0)
    return b64encode(np.rint(STEPS * shares).astype("<i2").tobytes()).decode()


def _facts(path: ConePath, ending: int) -> list[int | float | None]:
    """Facts about a run: index, ending, initial a, c, b, t*, error, stopping time."""
    x, y, z = path.points[0]
    _, stop_time, t_star, error = path.ending
    numbers = [(z + x) / 2, y / 2, (z - x) / 2, t_star, error, stop_time]
    entries = [
        float(f"{value:.6g}") if np.isfinite(value) else None for value in numbers
    ]
    return [path.run, ending, *entries]
