"""`meanfield report`: what was computed, as one page for a browser."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield import runs
from meanfield._writing import check_page, check_writable
from meanfield.cli.jobs._words import worded
from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
from meanfield.cli.terminal._console import FrameProgress
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError
from meanfield.pages import report as reports
from meanfield.plotting import pages

if TYPE_CHECKING:
    import xarray

# Numbers of attention matrices that are held at once, times of them that are kept, and
# tokens of which they are.
MOST_HELD, SNAPSHOTS, MOST_TOKENS = 40_000_000, 12, 1024
OF_MODELS = 16  # heads of a layer, where the keys do not say
# Why a run has no attention to look at: none is defined, or a file it needs has gone.
_WITHOUT = (InvalidInputError, InputFileError, UnsupportedError)


def report(
    path: Path,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    watch: bool = False,
    port: int = 0,
    host: str = "127.0.0.1",
    plugin: list[Path] | None = None,
) -> None:
    """Write a run, sweep, comparison or verification as one page.

    For example:
        meanfield report first.zarr
        meanfield report phase --out diagram.html
        meanfield verify lemma-4 --json > lemmas.json
        meanfield report lemmas.json

    The page fetches nothing: it plays and turns what was computed, draws its curves,
    and says how it ended and how to repeat it.

    Args:
        path: the folder of a run, of a sweep or of `compare --out`; or a file that
            `verify --json` printed.
        out: file to write; by default NAME.html beside what is shown.
        title: a headline in place of what was computed, in a few words.
        watch: serve the page on this machine while a run or a sweep goes on, until
            Ctrl-C; nothing is written.
        port: where it is served; by default any that is free.
        host: a loopback address to serve it on.
        plugin: a Python file in place of one that a run began with; may be repeated.
            Those of the run that you have given before are run again to see its
            attention.
    """
    subject = reports.subject_of(path)
    if title and subject.kind == "verification":
        raise InvalidInputError(
            "The page of a verification lists its statements and has no other "
            "`--title`: leave it out."
        )
    for store in subject.stores:
        load_measure_of(store, plugin)
    if watch:
        if out is not None:
            raise InvalidInputError("`--watch` writes nothing: leave out `--out`.")
        _serve(subject, title, host, port)
        return
    if port or host != "127.0.0.1":
        raise InvalidInputError(
            "`--port` and `--host` are for `--watch`: add it, or leave them out."
        )
    _save(subject, out, title, plugin)


def _save(
    subject: "reports.Subject",
    out: Path | None,
    title: str | None,
    plugins: list[Path] | None,
) -> None:
    target = pages.page_file(out or subject.path.parent / f"{subject.stem}.html")
    check_writable(target)
    check_page(target, "report")
    read = partial(_told_whole, plugins=plugins)
    progress = FrameProgress("preparing")
    file = reports.save_report(subject, target, progress, read, title=title)
    note(f"wrote {file}")


def _serve(subject: "reports.Subject", title: str | None, host: str, port: int) -> None:
    """Serves the page of a run or a sweep until the command is interrupted.

    Raises:
        InvalidInputError: if it is another thing.
    """
    if subject.kind not in ("run", "sweep"):
        raise InvalidInputError(
            f"`--watch` follows a run or a sweep; `{subject.path}` is a "
            f"{subject.kind}, which is done: leave it out."
        )

    def ignore(*_: object) -> None:
        """Tells nothing: the page is made again and again."""

    def read(path: Path) -> "xarray.Dataset":
        return worded(path, runs.dataset(path), "page", ignore)

    make = lambda: reports.page_of(subject, ignore, read).titled(title)
    with reports.serve(make, subject.path, host=host, port=port) as server:
        note(f"{server.url} shows `{subject.path}`; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):  # as it was told, and nothing is lost
            server.serve_forever()


def _told_whole(path: Path, *, plugins: list[Path] | None) -> "xarray.Dataset":
    """A run with the words and the attention of its tokens, where there are any.

    Attention is there at some times if it is of a size; else a sentence for the page
    says why not.
    """
    dataset = worded(path, runs.dataset(path), "page")
    reason = ""
    if at := _snapshots(dataset):
        try:
            loaded = load_plugins_of(path, plugins)
            return runs.with_attention(path, dataset, at, loaded)
        except _WITHOUT as error:
            reason = f"No lines of attention are drawn: {error}"
    elif dataset.sizes.get("token", 0) > MOST_TOKENS:
        reason = f"Lines of attention are drawn of up to {MOST_TOKENS} tokens."
    if reason:
        note(reason)
    return dataset.assign_attrs(lines=reason)


def _snapshots(dataset: "xarray.Dataset") -> list[float]:
    """Times at which attention is kept: few of many tokens or heads, or none.

    A model has matrices for as many heads as one names, or 16.
    """
    tokens = dataset.sizes.get("token", 0)
    if "x" not in dataset or "run" in dataset.dims or tokens > MOST_TOKENS:
        return []
    from meanfield.plotting.reading.observables import even_frames

    keys = dataset.attrs.get("spec", {})
    heads = int(keys.get("heads") or 1)
    if "model" in keys:
        heads = len(keys.get("model_heads") or range(OF_MODELS))
    count = max(2, min(SNAPSHOTS, MOST_HELD // (heads * tokens**2)))
    times = dataset["time"].values
    return times[even_frames(len(times), count)].tolist()
