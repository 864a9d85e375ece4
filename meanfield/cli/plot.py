"""`meanfield plot` and `meanfield animate`: pictures of a run."""

from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.errors import InvalidInputError

from ._output import note

if TYPE_CHECKING:
    import xarray

MANY = 256  # tokens above which attention matrices are drawn only when asked for


def plot(
    run: Path,
    /,
    *,
    panel: str | None = None,
    out: Path | None = None,
    at: list[float] | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """Draw a panel of a run, as PDF and PNG.

    Args:
        run: the folder of the run.
        panel: a name from `list panels`, or `all` that fit; by default tokens, or the
            cone for a Gaussian in the plane.
        out: file to write, with or without ending; by default RUN-PANEL beside the run.
            With `--panel all` the panel is added to its name.
        at: times of the attention matrices (panel `attention`); repeat for several.
        plugin: a Python file that registers your own attention, for that panel.
    """
    from meanfield import runs
    from meanfield.plotting import panels, save

    dataset = runs.dataset(run)
    for name in _chosen(panel, dataset):
        draw = panels[name]
        data = (
            _with_attention(run, dataset, at, plugin)
            if name == "attention"
            else dataset
        )
        target = out or run.parent / f"{_stem(run)}-{name}"
        if out is not None and panel == "all":
            target = out.with_name(f"{out.stem}-{name}{out.suffix}")
        for path in save(draw(data), target):
            note(f"wrote {path}")


def animate(run: Path, /, *, out: Path | None = None, fps: int = 20) -> None:
    """Make a GIF of a run.

    Args:
        run: the folder of the run.
        out: file to write; by default RUN.gif beside the run.
        fps: frames of the run shown in a second.
    """
    from meanfield import runs
    from meanfield.plotting import animate as write

    from ._console import FrameProgress

    target = out or run.parent / f"{_stem(run)}.gif"
    write(runs.dataset(run), target, fps=fps, progress=FrameProgress("drawing"))
    note(f"wrote {target}")


def _stem(run: Path) -> str:
    return run.absolute().name.removesuffix(".zarr")


def _chosen(panel: str | None, data: "xarray.Dataset") -> list[str]:
    """The panels to draw: the one asked for, all that fit, or the most telling."""
    if panel not in (None, "all"):
        return [panel]
    plane = ["cone", "disc"] if data.sizes["coord"] == 2 else []
    if "run" in data.dims:
        fitting = ["spectrum", *plane]
    else:
        fitting = ["tokens", "spectrum", *plane]
    if "x" in data:
        few = data.sizes["token"] <= MANY and "run" not in data.dims
        fitting += ["clusters", *(["attention"] if few else [])]
    elif plane:
        fitting = ["cone", *(name for name in fitting if name != "cone")]
    return fitting if panel == "all" else fitting[:1]


def _with_attention(
    run: Path,
    data: "xarray.Dataset",
    at: list[float] | None,
    plugin: list[Path] | None,
) -> "xarray.Dataset":
    from meanfield import runs
    from meanfield.storage import RunStore

    from ._session import load_plugins, open_session

    open_session(RunStore.open(run).spec.get("precision", "double"))
    load_plugins(plugin)
    if at is not None and not all(t == t for t in at):
        raise InvalidInputError("The times `--at` must be numbers; got nan.")
    return runs.with_attention(run, data, at)
