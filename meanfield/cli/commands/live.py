"""`meanfield live`: a page that integrates in the browser."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield import runs
from meanfield._writing import check_page
from meanfield.cli.options._options import (
    MOST_USED,
    flag,
    given_values,
    meaning_to_page,
    merge_keys,
    told_by,
    with_spec_options,
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
from meanfield.spec import Axis, RunSpec, parse, with_values

FEW, FEWER = 400, 100  # tokens that a browser moves at full rate; under Sinkhorn


@partial(with_spec_options, meaning=meaning_to_page, unlisted=pages.UNLISTED)
def live(
    file: Path | None = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(group=MOST_USED)] = None,
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

    It has sliders for the matrices, the bandwidth, noise and heads; tokens and the
    ellipse can be dragged; a link holds what is set, and the page shows the command
    that repeats it. It integrates tokens under softmax, L2, Sinkhorn, linear and
    sigmoid attention (masked by `causal`, too), and Gaussians under those that keep
    them Gaussian. Without `--n` a page has 400 tokens, 100 under Sinkhorn attention.

    Args:
        file: a TOML file of keys; or the folder of a run, whose first frame is the
            start, or of a sweep, whose axes become sliders.
        out: file to write; by default live.html, or RUN-live.html beside the run.
        title: a headline in place of what is moved, in a few words.
        preset: a named set of keys; see `list presets`.
        member: which of several draws or starts of a run to move, from 0.
        plugin: a Python file that is run, and registers what you add; may be repeated.
        **options: the keys of the spec that a page has use for.
    """
    if file is not None and file.is_dir():
        _refuse_options(file, preset, options)
        _of_folder(file, out, title, member, plugin or [])
        return
    if member is not None:
        raise InvalidInputError(
            "`--member` is for a stored run of several flows: leave it out."
        )
    _refuse_idle(options)
    keys = merge_keys(file, preset, {}, options)
    load_before_keys(plugin, keys)
    if keys.get("precision") == "single":
        note("a page integrates in double precision, whatever `precision` says")
    spec = parse({**keys, "precision": "double"}, where=told_by(file, options))
    open_session()
    _of_spec(spec, out or Path("live.html"), title)


def _of_folder(
    folder: Path,
    out: Path | None,
    title: str | None,
    member: int | None,
    plugins: list[Path],
) -> None:
    """The page of a run, from its first frame, or of a sweep, a slider for each axis.

    Raises:
        InvalidInputError: if a run has several flows and none is chosen.
        UnsupportedError: if a browser cannot integrate it, or an axis is no slider.
    """
    is_sweep = runs.is_sweep(folder)
    if is_sweep and member is not None:
        raise InvalidInputError(
            "A sweep has no `--member`: leave it out; its axes become sliders."
        )
    load_measure_of(folder, plugins)
    loaded = load_plugins_of(folder, plugins, "double")
    stem = folder.absolute().name.removesuffix(".zarr")
    target = out or folder.absolute().with_name(f"{stem}-live.html")
    if not is_sweep:
        _write(*runs.stored_start(folder, member, loaded), target, title)
        return
    cells = runs.SweepStore.open(folder).cells
    pages.check_axes(cells.axes, cells.spec)
    first = with_values(cells.spec, [(axis, axis.values[0]) for axis in cells.axes])
    for axis in cells.axes:
        for name in axis.values if axis.key == "attention" else ():
            # One that no page integrates is refused.
            few = with_values(first, [(axis, name)]).model_copy(update={"n": FEWER})
            flow = runs.member(few)
            pages.law_of(flow.dynamics, flow.measure)
    _of_spec(first, target, title, cells.axes)


def _of_spec(
    spec: RunSpec, target: Path, title: str | None, axes: Sequence[Axis] = ()
) -> None:
    """Writes the page of a spec.

    Raises:
        InvalidInputError: if it asks for several flows, or too many tokens.
        UnsupportedError: if a browser cannot integrate it.
    """
    if spec.is_family:
        raise InvalidInputError(
            "A page integrates one flow: leave out `draws` and `starts`."
        )
    if "n" not in spec.model_fields_set:
        few = FEWER if spec.attention == "sinkhorn" else FEW
        spec = spec.model_copy(update={"n": few})
    _write(spec, runs.member(spec), target, title, axes)


def _write(
    spec: RunSpec,
    flow: "runs.Member",
    target: Path,
    title: str | None,
    axes: Sequence[Axis] = (),
) -> None:
    check_page(target if target.suffix else target.with_suffix(".html"), "live")
    law = pages.law_of(flow.dynamics, flow.measure)
    setting = pages.setting_of(spec, law, title or runs.title(spec))
    note(f"wrote {pages.save_live_page(target, law, setting, axes)}")


def _refuse_options(
    folder: Path, preset: str | None, options: Mapping[str, str | bool | None]
) -> None:
    """Refuses keys beside a folder, which has its own.

    Raises:
        InvalidInputError: naming the first.
    """
    names = [*(["preset"] if preset else []), *given_values(options)]
    if names:
        raise InvalidInputError(
            f"`{folder}` has its keys: leave out `{flag(names[0])}`, and "
            "change them on the page."
        )


def _refuse_idle(options: Mapping[str, str | bool | None]) -> None:
    """Refuses options that mean nothing to a page; a file may be of other commands.

    Raises:
        InvalidInputError: naming the first, and what a page does instead.
    """
    for name, text in options.items():
        if name in pages.REFUSED and text is not None and text is not False:
            raise InvalidInputError(
                f"`{flag(name)}` is nothing to a page: {pages.REFUSED[name]}. "
                "Leave it out, or use `meanfield simulate`."
            )
