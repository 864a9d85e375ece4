"""`meanfield plot`: pictures of a run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield.cli.jobs._pictures import (
    carrying,
    opened,
    refuse_comparison,
    requested,
    stem,
)
from meanfield.cli.options._looks import with_look
from meanfield.cli.options._values import names_of
from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

PANEL = Parameter(metavar="NAME", completer=names_of("panels"))
MANY = 256  # tokens above which attention matrices are drawn only when asked for


@with_look
def plot(
    run: Path,
    /,
    *,
    panel: Annotated[str | None, PANEL] = None,
    out: Path | None = None,
    at: list[float] | None = None,
    plugin: list[Path] | None = None,
    html: bool = False,
    tokens: Path | None = None,
    **options: Any,
) -> None:
    """Draw a run, as PDF and PNG, or as a page to turn in a browser.

    For example:
        meanfield plot first.zarr
        meanfield plot first.zarr --panel all
        meanfield plot first.zarr --panel cone --html     # to turn in a browser
        meanfield plot first.zarr --panel spectrum --out ranks.pdf

    Args:
        run: the folder of the run.
        panel: a name from `list panels`, or `all` that fit; by default tokens, cone for
            a Gaussian in the plane, density for a grid, phase or lines for a sweep.
        out: file to write, with or without ending; by default RUN-PANEL beside the run.
            With `--panel all` the panel is added to its name.
        at: times of the attention matrices (panel `attention`, or one of yours that
            draws them); repeat for several.
        plugin: a Python file that registers a panel, or stands in place of one that the
            run began with; may be repeated. Those of the run that you have given
            before are run again for attention matrices, and for a panel or a measure
            that only they have.
        html: write the panel `cone` as one HTML file that needs no network.
        tokens: a run of tokens, to draw over a density.
        **options: the look.
    """
    request = requested(options)
    refuse_comparison(run)
    load_measure_of(run, plugin)
    dataset = carrying(opened(run, request), tokens)
    names = _chosen(panel, dataset)
    if not all(name in plotting.panels for name in names):
        load_plugins_of(run, plugin)
    _check_times(at, names)
    if html:
        target = out or run.parent / f"{stem(run)}-cone.html"
        _write_page(dataset, names, request.look, target)
        return

    def draw(name: str) -> "Figure":
        data = dataset
        if name in plotting.attention_panels:
            data = _with_attention(run, dataset, at, plugin)
        return plotting.draw_panel(name, data, request.look)

    _draw_all({name: _target(run, name, out, panel) for name in names}, draw)


def _draw_all(targets: Mapping[str, Path], draw: Callable[[str], "Figure"]) -> None:
    """Draws panels to files; notes which of several cannot be drawn, and why.

    Raises:
        InvalidInputError: if none can be drawn, as of the first: the look does not fit.
        InputFileError: likewise: a plugin or the model is missing.
    """
    refusals: dict[str, InvalidInputError | InputFileError] = {}
    for name, target in targets.items():
        try:
            figure = draw(name)
        except (InvalidInputError, InputFileError) as refusal:
            refusals[name] = refusal
            continue
        for path in plotting.save(figure, target):
            note(f"wrote {path}")
    if len(refusals) == len(targets):
        raise next(iter(refusals.values()))
    for name, refusal in refusals.items():
        note(f"no picture of `{name}`: {refusal}")


def _check_times(at: list[float] | None, names: list[str]) -> None:
    """Refuses times where no attention matrix is drawn."""
    if at is not None and plotting.attention_panels.keys().isdisjoint(names):
        panels = "`, `".join(plotting.attention_panels)
        raise InvalidInputError(f"`--at` is for the panel `{panels}`: leave it out.")


def _write_page(
    data: "xarray.Dataset", names: list[str], look: "plotting.Look", target: Path
) -> None:
    if look.chosen:
        raise InvalidInputError(
            f"`{look.chosen[0]}` does nothing with `--html`, whose page has a look of "
            "its own: leave it out."
        )
    if names != ["cone"]:
        raise InvalidInputError(
            "Only the panel `cone` is written as a page: "
            "use `--panel cone`, or leave out `--html`."
        )
    note(f"wrote {plotting.save_page(data, target)}")


def _target(run: Path, name: str, out: Path | None, panel: str | None) -> Path:
    """The file of a panel: beside the run, or `out`, with the panel's name if all."""
    if out is None:
        return run.parent / f"{stem(run)}-{name}"
    if panel == "all":
        return plotting.named(out).with_name(f"{out.stem}-{name}{out.suffix}")
    return out


def _chosen(panel: str | None, data: "xarray.Dataset") -> list[str]:
    """The panels to draw: the one asked for, all that fit, or the most telling."""
    if panel not in (None, "all"):
        return [panel]
    if data.attrs.get("kind") == "sweep":
        names = ["lines", "phase"] if "seed" in data.dims else ["phase", "lines"]
        return names if panel == "all" else names[:1]
    plane = ["cone", "disc"] if data.sizes["coord"] == 2 else []
    if data.attrs.get("kind") == "grid":
        names = ["density", "balance", "spectrum", *plane]
    elif "run" in data.dims:
        names = ["spectrum", *plane]
    else:
        names = ["tokens", "spectrum", *plane]
    if "energy" in data:
        names.append("energy")
    if data.attrs.get("kind") == "points":
        is_small = data.sizes["token"] <= MANY and "run" not in data.dims
        names += ["clusters", *(["attention"] if is_small else [])]
    elif plane and data.attrs.get("kind") == "gaussian":
        names = ["cone", *(name for name in names if name != "cone")]
    return names if panel == "all" else names[:1]


def _with_attention(
    run: Path,
    data: "xarray.Dataset",
    at: list[float] | None,
    plugins: list[Path] | None,
) -> "xarray.Dataset":
    if at is not None and not all(t == t for t in at):
        raise InvalidInputError("The times `--at` must be numbers; got nan.")
    return runs.with_attention(run, data, at, load_plugins_of(run, plugins))
