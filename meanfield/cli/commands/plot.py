"""`meanfield plot`: pictures of a run, or of several runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from meanfield import plotting, runs
from meanfield._writing import check_output
from meanfield.cli.jobs._joint_pictures import expand, joint_name, open_runs
from meanfield.cli.jobs._pictures import (
    Request,
    add_tokens,
    open_dataset,
    parse_request,
    stem,
)
from meanfield.cli.options._looks import add_look_options
from meanfield.cli.options._values import names_of
from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError
from meanfield.plotting import pages

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

PANEL = Parameter(metavar="NAME", completer=names_of("panels"))
MAX_TOKENS = 256  # with more tokens, attention matrices are drawn on request only


@add_look_options
def plot(
    *folders: Annotated[Path, Parameter(name="RUN")],
    panel: Annotated[str | None, PANEL] = None,
    out: Path | None = None,
    force: bool = False,
    at: list[float] | None = None,
    plugin: list[Path] | None = None,
    html: bool = False,
    tokens: Path | None = None,
    **options: Any,
) -> None:
    """Draw runs as PDF and PNG, or one run as an HTML page.

    For example:
        meanfield plot first.zarr
        meanfield plot first.zarr --panel all
        meanfield plot first.zarr --panel cone --html     # rotates in a browser
        meanfield plot first.zarr --panel rank --out rank.pdf
        meanfield plot softmax.zarr l2.zarr --panel rank  # in one picture

    Args:
        folders: folder of a run or of a sweep; several runs, or the folder of a
            comparison, are drawn in one picture.
        panel: panel to draw, by name (see `list panels`), or `all` for every panel that
            fits. The default is phase or lines for a sweep, density for a grid, cone
            or simplex for Gaussians, spectrum for other runs with several draws or
            starts, and tokens for any other run. Several runs are drawn by the panels
            rank (the default), spectrum, energy, clusters or tokens.
        out: output file, with or without extension; by default RUN-PANEL next to the
            run. `--panel all` appends the name of each panel.
        force: whether to replace existing files (flag).
        at: times of the attention matrices, for panel `attention`; may be repeated. In
            a network, the layer of index 3 acts at time 3.
        plugin: Python file of a plugin, for example of one that registers a panel; may
            be repeated. Plugins of the run load automatically, unless they were moved,
            have changed or were never loaded before.
        html: output of panel `cone` as one self-contained HTML file (flag).
        tokens: run whose tokens are drawn over the density.
        **options: style of the picture.
    """
    request, output = parse_request(options), _Output(out, panel, force)
    run, *more_runs = paths = expand(folders, "plot")
    if more_runs:
        _check_alone({"at": at, "html": html or None, "tokens": tokens})
        return _plot_joint(paths, output, request, plugin)
    load_measure_of(run, plugin)
    dataset = add_tokens(open_dataset(run, request), tokens)
    names = _select_panels(panel, dataset)
    if not all(name in plotting.panels for name in names):
        load_plugins_of(run, plugin)
    _check_times(at, names)
    if html:
        return output.write_page(run, dataset, names, request.look)

    def draw(name: str) -> "Figure":
        data = dataset
        if name in plotting.attention_panels:
            data = runs.add_attention(run, dataset, at, load_plugins_of(run, plugin))
        return plotting.draw_panel(name, data, request.look)

    return _draw_all(output.pictures(run, names), draw)


class _Output(NamedTuple):
    """The options `--out`, `--panel` and `--force`, which determine the files."""

    file: Path | None
    panel: str | None
    force: bool

    def pictures(self, run: Path, names: list[str]) -> dict[str, Path]:
        """A file for each panel; raises if one exists, unless `force` is true."""
        targets = {name: self._picture(run, name) for name in names}
        for target in targets.values():
            check_output(*plotting.figure_files(target), force=self.force)
        return targets

    def write_page(
        self, run: Path, data: "xarray.Dataset", names: list[str], look: "plotting.Look"
    ) -> None:
        """Writes the page of a cone, unless it exists and `force` is false."""
        if look.choices:
            raise InvalidInputError(
                f"Leave out `{look.choices[0]}`: it has no effect with `--html`, "
                "because the page has its own style."
            )
        if names != ["cone"]:
            raise InvalidInputError(
                "`--html` writes an interactive page, which only the panel `cone` has: "
                "use `--panel cone`, or leave out `--html`."
            )
        target = pages.page_file(self.file or run.parent / f"{stem(run)}-cone.html")
        check_output(target, force=self.force)
        note(f"wrote {plotting.save_page(data, target)}")

    def _picture(self, run: Path, name: str) -> Path:
        """`file`, or a file whose name ends with that of the panel."""
        out = self.file
        if out is None:
            return run.parent / f"{stem(run)}-{name}"
        if self.panel == "all":
            return plotting.output_path(out).with_name(f"{out.stem}-{name}{out.suffix}")
        return out


def _plot_joint(
    paths: list[Path], output: _Output, request: Request, plugins: list[Path] | None
) -> None:
    """Draws several runs in one picture."""
    datasets = open_runs(paths, request, plugins)
    names = _joint_panels(output.panel, datasets)
    targets = output.pictures(paths[0].parent / joint_name(paths), names)
    _draw_all(targets, lambda name: plotting.joint_panels[name](datasets, request.look))


def _joint_panels(
    panel: str | None, datasets: Mapping[str, "xarray.Dataset"]
) -> list[str]:
    """The panels of several runs to draw: the given one, all, or the default one."""
    if panel == "all":
        return list(plotting.joint_panels)
    is_line = any(data.sizes["coord"] == 1 for data in datasets.values())
    return [panel or ("spectrum" if is_line else "rank")]


def _check_alone(options: Mapping[str, object]) -> None:
    """Raises if an option for one run is given with several runs."""
    for name, value in options.items():
        if value is not None:
            raise InvalidInputError(
                f"Leave out `--{name}`, which is for one run; several runs were given."
            )


def _draw_all(targets: Mapping[str, Path], draw: Callable[[str], "Figure"]) -> None:
    """Draws panels to files, and prints which panels cannot be drawn, and why.

    Raises:
        InvalidInputError: if no panel can be drawn, and the first has a wrong option.
        InputFileError: if no panel can be drawn, and the first lacks a plugin or model.
    """
    errors: dict[str, InvalidInputError | InputFileError] = {}
    for name, target in targets.items():
        try:
            figure = draw(name)
        except (InvalidInputError, InputFileError) as error:
            errors[name] = error
            continue
        for path in plotting.save(figure, target):
            note(f"wrote {path}")
    if len(errors) == len(targets):
        raise next(iter(errors.values()))
    for name, error in errors.items():
        note(f"no picture of `{name}`: {error}")


def _check_times(times: list[float] | None, names: list[str]) -> None:
    """Raises if times are not numbers, or no panel draws attention matrices."""
    if times is not None and not all(t == t for t in times):
        raise InvalidInputError("The times `--at` must be numbers; got nan.")
    if times is not None and plotting.attention_panels.keys().isdisjoint(names):
        panels = "`, `".join(plotting.attention_panels)
        raise InvalidInputError(f"Leave out `--at`: only the panel `{panels}` uses it.")


def _select_panels(panel: str | None, data: "xarray.Dataset") -> list[str]:
    """The panels to draw: the given one, all that fit the data, or the default one."""
    if panel not in (None, "all"):
        return [panel]
    if data.attrs.get("kind") == "sweep":
        names = ["lines", "phase"] if "seed" in data.dims else ["phase", "lines"]
        return names if panel == "all" else names[:1]
    shapes = {2: ["cone", "disc"], 3: ["simplex"]}.get(data.sizes["coord"], [])
    shapes = shapes if plotting.is_flat(data) else []
    first = ["tokens"] if "run" not in data.dims else []
    if "density" in data:
        first = ["density", *(["balance"] if "outflow" in data else [])]
    elif data.attrs.get("kind") == "gaussian" and ("cone" in shapes or not first):
        first = [*shapes[:1], *first]
    fits = {"energy": "energy" in data, "merges": "merge_time" in data}
    fits["numbers"] = bool(plotting.observed_numbers(data))
    names = [*first, "spectrum", *shapes, *(name for name in fits if fits[name])]
    if data.attrs.get("kind") == "points":
        is_small = data.sizes["token"] <= MAX_TOKENS and "run" not in data.dims
        names += ["clusters", *(["attention"] if is_small else [])]
    names = [*dict.fromkeys(names)]
    return names if panel == "all" else names[:1]
