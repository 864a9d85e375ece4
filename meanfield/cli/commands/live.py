"""`meanfield live`: an HTML page that integrates a flow in the browser."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield import runs
from meanfield._writing import check_output
from meanfield.cli.options._options import (
    MOST_USED,
    add_spec_options,
    flag,
    key_source,
    meaning_to_page,
    merge_keys,
    option_values,
)
from meanfield.cli.options._values import Preset
from meanfield.cli.process._plugins import (
    load_before_keys,
    load_measure_of,
    load_plugins_of,
)
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError
from meanfield.pages import live as pages
from meanfield.plotting.pages import page_file, write_page
from meanfield.spec import Axis, RunSpec, parse, replace_values


@partial(add_spec_options, meaning=meaning_to_page, unlisted=pages.HIDDEN_KEYS)
def live(
    file: Path | None = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
    force: bool = False,
    title: Annotated[str | None, Parameter(group=MOST_USED)] = None,
    preset: Preset = None,
    member: int | None = None,
    plugin: list[Path] | None = None,
    **options: str | bool | None,
) -> None:
    """Write one HTML file that integrates a flow in the browser.

    For example:
        meanfield live --preset collapse --out page.html
        meanfield live --measure gaussian --d 2 --A 1 --cov 2 --out blowup.html
        meanfield live first.zarr                        # from its first frame

    The page has sliders for the matrices, bandwidth, noise and heads. Tokens and the
    ellipse can be dragged. The page can copy a link that stores its settings, and it
    shows the equivalent command. It integrates tokens under softmax, L2, Sinkhorn,
    linear and sigmoid attention (also with the `causal` mask), and Gaussians under the
    attentions that preserve them. Without `--n` it has 400 tokens, or 100 for Sinkhorn
    attention.

    Args:
        file: TOML file of keys; or folder of a run, whose first frame is the initial
            measure, or of a sweep, whose axes become sliders.
        out: output file; by default live.html, or RUN-live.html next to the run.
        force: whether to replace an existing page (flag).
        title: title of the page; by default a summary of the spec.
        preset: named set of keys; see `list presets`.
        member: index of the draw or start of the run to integrate, from 0.
        plugin: Python file that registers extensions; may be repeated.
        **options: keys of the spec that a page supports.
    """
    target = page_file(out or _default_page(file))
    check_output(target, force=force)
    if file is not None and file.is_dir():
        _check_no_keys(file, preset, options)
        _write_folder_page(file, target, title, member, plugin or [])
        return
    if member is not None:
        raise InvalidInputError(
            "Leave out `--member`: it selects one of the flows of a stored run."
        )
    pages.check_keys(options, flag)
    keys = merge_keys(file, preset, {}, options)
    load_before_keys(plugin, keys)
    if keys.get("precision") == "single":
        note("a page integrates in double precision; `precision` is ignored")
    spec = parse({**keys, "precision": "double"}, where=key_source(file, options))
    open_session()
    _write(target, pages.page_of_spec(spec, title))


def _default_page(file: Path | None) -> Path:
    """The page of a file of keys, or of the folder of a run or sweep."""
    if file is None or not file.is_dir():
        return Path("live.html")
    stem = file.absolute().name.removesuffix(".zarr")
    return file.absolute().with_name(f"{stem}-live.html")


def _write_folder_page(
    folder: Path,
    target: Path,
    title: str | None,
    member: int | None,
    plugins: list[Path],
) -> None:
    """Writes a page that starts at a run's first frame, or has sliders for a sweep.

    Raises:
        InvalidInputError: if a run has several flows and none is chosen.
        UnsupportedError: if a page cannot integrate the flow, or vary a swept key.
    """
    is_sweep = runs.is_sweep(folder)
    if is_sweep and member is not None:
        raise InvalidInputError(
            "Leave out `--member`: on the page of a sweep each axis is a slider."
        )
    load_measure_of(folder, plugins)
    all_plugins = load_plugins_of(folder, plugins, "double")
    if not is_sweep:
        spec, flow = runs.load_start(folder, member, all_plugins)
        law = pages.law_of(flow.dynamics, flow.measure)
        setting = pages.setting_of(spec, law, title or runs.title(spec))
        return _write(target, pages.live_page(law, setting))
    cells = runs.SweepStore.open(folder).cells
    pages.check_axes(cells.axes, cells.spec)
    first = replace_values(cells.spec, [(axis, axis.values[0]) for axis in cells.axes])
    _check_attentions(first, cells.axes)
    return _write(target, pages.page_of_spec(first, title, cells.axes))


def _write(target: Path, page: str) -> None:
    note(f"wrote {write_page(target, page)}")


def _check_attentions(spec: RunSpec, axes: Sequence[Axis]) -> None:
    """Raises unless a page can integrate every attention of a sweep.

    Raises:
        UnsupportedError: if a page cannot integrate one of them.
    """
    for axis in axes:
        for name in axis.values if axis.key == "attention" else ():
            cell_spec = replace_values(spec, [(axis, name)]).model_copy(
                update={"n": pages.N_TOKENS_SINKHORN}
            )
            flow = runs.member(cell_spec)
            pages.law_of(flow.dynamics, flow.measure)


def _check_no_keys(
    folder: Path, preset: str | None, options: Mapping[str, str | bool | None]
) -> None:
    """Raises if keys are given for a folder, which has its own keys.

    Raises:
        InvalidInputError: naming the first key.
    """
    names = [*(["preset"] if preset else []), *option_values(options)]
    if names:
        raise InvalidInputError(
            f"`{folder}` sets the keys, which can be changed on the page: leave out "
            f"`{flag(names[0])}`."
        )
