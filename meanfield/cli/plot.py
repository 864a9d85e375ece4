"""`meanfield plot` and `meanfield animate`: pictures of a run."""

from pathlib import Path

from meanfield.errors import InvalidInputError

from ._console import FrameProgress, note


def plot(
    run: Path,
    /,
    *,
    panel: str | None = None,
    out: Path | None = None,
    at: list[float] | None = None,
) -> None:
    """Draw a panel of a run, as PDF and PNG.

    Args:
        run: the folder of the run.
        panel: a name from `list panels`, or `all` that fit; by default tokens, or the
            cone for a Gaussian in the plane.
        out: file to write, with or without ending; by default RUN-PANEL beside the run.
        at: times of the attention matrices (panel `attention`); repeat for several.
    """
    from meanfield.plotting import panels, save

    from ._frames import frames, with_attention

    dataset = frames(run)
    for name in _chosen(panel, dataset, list(panels)):
        data = with_attention(run, dataset, at) if name == "attention" else dataset
        target = out or run.with_name(f"{run.name.removesuffix('.zarr')}-{name}")
        for path in save(panels[name](data), target):
            note(f"wrote {path}")


def animate(run: Path, /, *, out: Path | None = None, fps: int = 20) -> None:
    """Make a GIF of a run.

    Args:
        run: the folder of the run.
        out: file to write; by default RUN.gif beside the run.
        fps: frames of the run shown in a second.
    """
    from meanfield.plotting import animate as write

    from ._frames import frames

    target = out or run.with_name(f"{run.name.removesuffix('.zarr')}.gif")
    write(frames(run), target, fps=fps, progress=FrameProgress("drawing"))
    note(f"wrote {target}")


def _chosen(panel: str | None, dataset: object, known: list[str]) -> list[str]:
    from ._frames import fitting

    fits = fitting(dataset)
    if panel == "all":
        return [name for name in known if name in fits]
    if panel is not None:
        return [panel]
    if not fits:
        raise InvalidInputError("No panel fits this run; see `list panels`.")
    return [fits[0]]
