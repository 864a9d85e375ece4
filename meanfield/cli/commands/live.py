"""`meanfield live`: a page that integrates in the browser."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from meanfield.cli.options._completing import Preset
from meanfield.cli.options._options import (
    MOST_USED,
    gathered,
    given_values,
    meaning_to_page,
    told_by,
    with_spec_options,
)
from meanfield.cli.terminal._output import note
from meanfield.errors import InvalidInputError
from meanfield.pages.live import REFUSED, UNLISTED
from meanfield.spec import parse


@partial(with_spec_options, meaning=meaning_to_page, unlisted=UNLISTED)
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
        _of_folder(file, out, title, member, plugin)
        return
    if member is not None:
        raise InvalidInputError(
            "`--member` is for a stored run of several flows: leave it out."
        )
    _refuse_idle(options)
    from meanfield.cli.process._plugins import load_before_keys
    from meanfield.cli.process._session import open_session

    load_before_keys(plugin, gathered(file, preset, {}, options))
    values = gathered(file, preset, {}, options)
    if values.get("precision") == "single":
        note("a page integrates in double precision, whatever `precision` says")
    spec = parse({**values, "precision": "double"}, where=told_by(file, options))
    open_session()
    from meanfield.cli.jobs._live import page_of_spec

    page_of_spec(spec, out or Path("live.html"), title=title)


def _of_folder(
    folder: Path,
    out: Path | None,
    title: str | None,
    member: int | None,
    plugins: list[Path] | None,
) -> None:
    """The page of a stored run, or of a sweep."""
    from meanfield import runs
    from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
    from meanfield.cli.process._session import open_session

    is_sweep = runs.is_sweep(folder)
    if is_sweep and member is not None:
        raise InvalidInputError(
            "A sweep has no `--member`: leave it out; its axes become sliders."
        )
    load_measure_of(folder, plugins)
    open_session()
    loaded = load_plugins_of(folder, plugins)
    from meanfield.cli.jobs._live import page_of_run, page_of_sweep

    stem = folder.absolute().name.removesuffix(".zarr")
    target = out or folder.absolute().with_name(f"{stem}-live.html")
    if is_sweep:
        page_of_sweep(folder, target, title)
    else:
        page_of_run(folder, target, title, member, loaded)


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
            f"`{folder}` has its keys: leave out `--{names[0].replace('_', '-')}`, and "
            "change them on the page."
        )


def _refuse_idle(options: Mapping[str, str | bool | None]) -> None:
    """Refuses options that mean nothing to a page; a file may be of other commands.

    Raises:
        InvalidInputError: naming the first, and what a page does instead.
    """
    for name, text in options.items():
        if name in REFUSED and text is not None and text is not False:
            raise InvalidInputError(
                f"`--{name.replace('_', '-')}` is nothing to a page: {REFUSED[name]}. "
                "Leave it out, or use `meanfield simulate`."
            )
