"""`meanfield plot`: pictures of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from meanfield.cli.jobs._pictures import (
    carrying,
    opened,
    refuse_comparison,
    requested,
    stem,
)
from meanfield.cli.options._looks import with_look
from meanfield.cli.options._values import names_of
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError

if TYPE_CHECKING:
    import xarray

    from meanfield.plotting import Look

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
    from meanfield.cli.process._plugins import load_measure_of
    from meanfield.plotting import attention_panels, panels

    request = requested(options)
    refuse_comparison(run)
    load_measure_of(run, plugin)
    dataset = carrying(opened(run, request), tokens)
    names = _chosen(panel, dataset)
    if not all(name in panels for name in names):
        _load_recorded(run, plugin or [])
    _check_times(at, names)
    if html:
        _refuse_looks(request.look)
        _write_page(dataset, names, out or run.parent / f"{stem(run)}-cone.html")
        return
    attend = lambda name: (
        _with_attention(run, dataset, at, plugin or [])
        if name in attention_panels
        else dataset
    )
    _draw(names, attend, request.look, lambda name: _target(run, name, out, panel))


def _draw(
    names: list[str],
    data_of: "Callable[[str], xarray.Dataset]",
    look: "Look",
    target_of: Callable[[str], Path],
) -> None:
    """Draws panels to files; notes which of several cannot be drawn, and why.

    Raises:
        InvalidInputError: if none can be drawn, as of the first: the look does not fit.
        InputFileError: likewise: a plugin or the model is missing.
    """
    from meanfield.plotting import draw_panel, save

    refusals: dict[str, InvalidInputError | InputFileError] = {}
    for name in names:
        try:
            figure = draw_panel(name, data_of(name), look)
        except (InvalidInputError, InputFileError) as refusal:
            refusals[name] = refusal
            continue
        for path in save(figure, target_of(name)):
            note(f"wrote {path}")
    if len(refusals) == len(names):
        raise refusals[names[0]]
    for name, refusal in refusals.items():
        note(f"no picture of `{name}`: {refusal}")


def _check_times(at: list[float] | None, names: list[str]) -> None:
    """Refuses times where no attention matrix is drawn.

    Raises:
        InvalidInputError: if there are any.
    """
    from meanfield.plotting import attention_panels

    if at is not None and attention_panels.keys().isdisjoint(names):
        raise InvalidInputError(
            f"`--at` is for the panel `{'`, `'.join(attention_panels)}`: leave it out."
        )


def _refuse_looks(look: "Look") -> None:
    if look.chosen:
        raise InvalidInputError(
            f"`{look.chosen[0]}` does nothing with `--html`, whose page has a look of "
            "its own: leave it out."
        )


def _write_page(data: "xarray.Dataset", names: list[str], target: Path) -> None:
    from meanfield.plotting import save_page

    if names != ["cone"]:
        raise InvalidInputError(
            "Only the panel `cone` is written as a page: "
            "use `--panel cone`, or leave out `--html`."
        )
    note(f"wrote {save_page(data, target)}")


def _target(run: Path, name: str, out: Path | None, panel: str | None) -> Path:
    """The file of a panel: beside the run, or `out`, with the panel's name if all."""
    from meanfield.plotting import named

    if out is None:
        return run.parent / f"{stem(run)}-{name}"
    if panel == "all":
        return named(out).with_name(f"{out.stem}-{name}{out.suffix}")
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


def _load_recorded(run: Path, plugins: list[Path]) -> list[Path]:
    """Runs plugins, with those of the run, in the precision of the run.

    Returns:
        All of them.
    """
    from meanfield import runs
    from meanfield.cli.process._plugins import load_plugins, load_plugins_of
    from meanfield.cli.process._session import open_session
    from meanfield.storage import RunStore

    spec = {} if runs.is_sweep(run) else RunStore.open(run).spec
    open_session(spec.get("precision", "double"))
    load_plugins(plugins)
    return load_plugins_of(run, plugins)


def _with_attention(
    run: Path, data: "xarray.Dataset", at: list[float] | None, plugins: list[Path]
) -> "xarray.Dataset":
    from meanfield import runs

    if at is not None and not all(t == t for t in at):
        raise InvalidInputError("The times `--at` must be numbers; got nan.")
    return runs.with_attention(run, data, at, _load_recorded(run, plugins))
