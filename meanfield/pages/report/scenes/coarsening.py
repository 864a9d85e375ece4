"""Reduction of members, frames or tokens of a run, to bound the size of a page."""

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from meanfield.plotting.reading.observables import even_frames

# A page has at most `MAX_NUMBERS` coordinates or cell values, enough for 200 frames of
# 10 000 tokens in 3D. They take 9 MB in the file and another 9 MB in the browser.
MAX_NUMBERS = 6_500_000
# At least `_FRAMES` frames are kept; to reduce a run further, tokens are left out.
_FRAMES = 100
# At most `_MEMBERS` members of an ensemble are kept. The page has a drop-down list in
# which the reader chooses the member that is shown.
_MEMBERS = 50
_SPACE = ("token", "cell_x", "cell_y", "layer")


@dataclass(frozen=True)
class Subset:
    """A dataset reduced to a bounded size.

    Attributes:
        data: the reduced dataset.
        members: indices of the members that are kept; empty without members.
        tokens: indices of the tokens that are kept; empty without tokens.
        notes: a sentence for each reduction.
    """

    data: xr.Dataset
    members: np.ndarray
    tokens: np.ndarray
    notes: list[str] = field(default_factory=list)


def coarsen(dataset: xr.Dataset, limit: int = MAX_NUMBERS) -> Subset:
    """Reduce members, then frames, then tokens evenly, to at most `limit` numbers.

    These numbers are the coordinates of tokens, or the cell values of a density.
    Gaussians are small and are not counted.
    """
    sizes = {str(name): size for name, size in dataset.sizes.items()}
    cells = int(np.prod([sizes.get(name, 1) for name in _SPACE]))
    state = cells * (min(sizes.get("coord", 1), 3) if "token" in sizes else 1)
    wishes = {
        "run": min(_MEMBERS, limit // (state * sizes["time"])),
        "time": max(_FRAMES, limit // state),
        "token": limit // (_FRAMES * min(sizes.get("coord", 1), 3)),
    }
    indices, notes = {}, []
    for name, noun in (("run", "members"), ("time", "frames"), ("token", "tokens")):
        if name in sizes:
            indices[name] = even_frames(sizes[name], max(1, wishes[name]))
            if len(indices[name]) < sizes[name]:
                notes.append(
                    f"{len(indices[name])} of {sizes[name]} {noun} are shown, evenly "
                    "chosen; curves are of all."
                )
    empty = np.zeros(0, np.intp)
    members, tokens = indices.get("run", empty), indices.get("token", empty)
    return Subset(dataset.isel(indices), members, tokens, notes)
