"""The cone of covariances as a page turns it: paths, and where they leave."""

from typing import Any

import numpy as np
import xarray as xr

from meanfield.plotting.cone.paths import (
    ConePath,
    cone_height,
    cone_paths,
    drawn_paths,
    ring_heights,
)
from meanfield.plotting.reading import even_frames

from .packing import packed

# Paths that are drawn; more are thinned evenly.
_PATHS = 400

Cone = dict[str, Any]


def cone(datasets: list[tuple[str, xr.Dataset]]) -> Cone | None:
    """The paths of covariances in the plane, of several datasets by name.

    `rows` has (a - b, 2c, a + b, t), path after path, `lengths` counts the rows of
    each. Nothing unless the dimension is two.
    """
    if any(data.sizes["coord"] != 2 for _, data in datasets):
        return None
    named = [(name, path) for name, data in datasets for path in cone_paths(data, "")]
    kept = even_frames(len(named), _PATHS)
    paths = [path for _, path in named]
    height = cone_height(paths)
    drawn = [drawn_paths([paths[i]], height)[0] for i in kept]
    return {
        "height": height,
        "rings": ring_heights(height),
        "tallest": max(float(path.points[:, 2].max()) for path in paths),
        "paths": [_about(named[i][0], paths[i]) for i in kept],
        "lengths": [len(path.rows) for path in drawn],
        "rows": packed(np.concatenate([path.rows for path in drawn])),
        "left_out": len(paths) - len(kept),
    }


def _about(name: str, path: ConePath) -> dict[str, Any]:
    row = path.ending.status.row
    about = {"name": name, "member": path.run, "colour": row.colour}
    return {**about, "ending": path.ending.status.ending}
