"""Fewer members, frames or tokens, where a page would be too large; always said."""

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from meanfield.plotting.reading.observables import even_frames

# Numbers that a page holds of positions or densities: 10 000 tokens in space at 200
# times, of which it takes 9 MB at rest and as many bytes again to paint.
MOST = 6_500_000
# Frames that are kept before tokens are left out.
_FRAMES = 100
# Members whose states can be chosen in one list.
_MEMBERS = 50
_SPACE = ("token", "cell_x", "cell_y", "layer")


@dataclass(frozen=True)
class Coarsened:
    """A dataset of bounded size.

    Attributes:
        data: what is left.
        members: the numbers of the members that are left; none without members.
        tokens: the numbers of the tokens that are left; none without tokens.
        notes: what was left out, in a sentence each.
    """

    data: xr.Dataset
    members: np.ndarray
    tokens: np.ndarray
    notes: list[str] = field(default_factory=list)


def coarsened(dataset: xr.Dataset, most: int = MOST) -> Coarsened:
    """Evenly spaced members, then frames, then tokens, until `most` numbers are left.

    What moves counts: coordinates of tokens, cells of densities. Gaussians are small.
    """
    sizes = {str(name): size for name, size in dataset.sizes.items()}
    cells = int(np.prod([sizes.get(name, 1) for name in _SPACE]))
    state = cells * (min(sizes.get("coord", 1), 3) if "token" in sizes else 1)
    wishes = {
        "run": min(_MEMBERS, most // (state * sizes["time"])),
        "time": max(_FRAMES, most // state),
        "token": most // (_FRAMES * min(sizes.get("coord", 1), 3)),
    }
    kept, notes = {}, []
    for name, words in (("run", "members"), ("time", "frames"), ("token", "tokens")):
        if name in sizes:
            kept[name] = even_frames(sizes[name], max(1, wishes[name]))
            if len(kept[name]) < sizes[name]:
                notes.append(
                    f"{len(kept[name])} of {sizes[name]} {words} are shown, evenly "
                    "chosen; curves are of all."
                )
    none = np.zeros(0, np.intp)
    members, tokens = kept.get("run", none), kept.get("token", none)
    return Coarsened(dataset.isel(kept), members, tokens, notes)
