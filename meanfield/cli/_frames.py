"""The part of `plot` and `animate` that reads runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield import runs

if TYPE_CHECKING:
    import xarray


def frames(run: Path) -> "xarray.Dataset":
    """The frames of a run."""
    return runs.dataset(run)


def with_attention(
    run: Path, data: "xarray.Dataset", at: Sequence[float] | None
) -> "xarray.Dataset":
    """The frames with attention matrices at chosen times."""
    return runs.with_attention(run, data, at)


def fitting(data: "xarray.Dataset") -> list[str]:
    """The panels that can show a run, the most telling first."""
    plane = data.sizes["coord"] == 2
    shapes = ["cone", "disc"] if plane else []
    if "x" not in data:
        return [*shapes, "tokens", "spectrum"]
    few = data.sizes["token"] <= 256 and "run" not in data.dims
    single = [] if "run" in data.dims else ["tokens"]
    return [*single, "spectrum", "clusters", *shapes, *(["attention"] if few else [])]
