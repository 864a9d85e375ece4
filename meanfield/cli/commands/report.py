"""`meanfield report`: results as one HTML page."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield import runs
from meanfield._writing import check_output
from meanfield.cli.jobs._joint_pictures import expand, joint_name
from meanfield.cli.jobs._texts import add_word_labels
from meanfield.cli.process._plugins import load_measure_of, load_plugins_of
from meanfield.cli.terminal._console import FrameProgress
from meanfield.cli.terminal._output import note
from meanfield.errors import InputFileError, InvalidInputError, UnsupportedError
from meanfield.pages import report as reports
from meanfield.plotting import pages

if TYPE_CHECKING:
    import xarray

# Limits of attention matrices in a report: the number of entries in memory, the number
# of times at which matrices are computed, and the number of tokens.
MAX_ENTRIES, SNAPSHOTS, MOST_TOKENS = 40_000_000, 12, 1024
N_MODEL_HEADS = 16  # assumed number of heads per layer, unless `model_heads` is given


def report(
    *paths: Path,
    out: Path | None = None,
    force: bool = False,
    title: str | None = None,
    watch: bool = False,
    port: int = 0,
    host: str = "127.0.0.1",
    plugin: list[Path] | None = None,
) -> None:
    """Write runs, a sweep or other results as an HTML page.

    For example:
        meanfield report first.zarr
        meanfield report softmax.zarr l2.zarr    # side by side
        meanfield report phase --out diagram.html
        meanfield verify lemma-4 --json > lemmas.json
        meanfield report lemmas.json

    The self-contained page plays and rotates the results, plots curves over time, and
    shows how the run ended and the command that repeats it.

    Args:
        paths: folder of a run, of a sweep or of `compare --out`; file with the output
            of `verify --json`; or folders of several runs.
        out: output file; by default NAME.html next to the first path.
        force: whether to replace an existing page (flag).
        title: title of the page; by default a summary of the spec.
        watch: live page of a run or sweep in progress, served on this machine until
            Ctrl-C (flag).
        port: port of the server of --watch; by default any free port.
        host: loopback address of the server of --watch.
        plugin: Python file of a plugin of the run, if it was moved; may be repeated.
            Plugins that were loaded before and have not changed load automatically.
    """
    subject = _subject(paths)
    if title and subject.kind == "verification":
        raise InvalidInputError(
            "`--title` has no effect on the page of a verification: leave it out."
        )
    for store in subject.stores:
        load_measure_of(store, plugin)
    if watch:
        if out is not None:
            raise InvalidInputError("`--watch` writes no file: leave out `--out`.")
        _serve(subject, title, host, port)
        return
    if port or host != "127.0.0.1":
        raise InvalidInputError(
            "`--port` and `--host` need `--watch`: add `--watch`, or leave them out."
        )
    file = out or subject.path.parent / f"{subject.stem}.html"
    check_output(target := pages.page_file(file), force=force)
    _save(subject, target, title, plugin)


def _subject(paths: Sequence[Path]) -> "reports.Subject":
    """The subject of a path, or of several runs."""
    folders = expand(paths, "report")
    if len(folders) == 1 or (len(paths) == 1 and runs.is_comparison(paths[0])):
        return reports.subject_of(paths[0])
    return reports.Subject("runs", folders[0].parent / joint_name(folders), {}, folders)


def _save(
    subject: "reports.Subject",
    target: Path,
    title: str | None,
    plugins: list[Path] | None,
) -> None:
    read = _load_words if subject.runs else partial(_load_run, plugins=plugins)
    progress = FrameProgress("preparing")
    file = reports.save_report(subject, target, progress, read, title=title)
    note(f"wrote {file}")


def _serve(subject: "reports.Subject", title: str | None, host: str, port: int) -> None:
    """Serves the page of a run or a sweep until the command is interrupted.

    Raises:
        InvalidInputError: if `subject` is neither a run nor a sweep.
    """
    if subject.kind not in ("run", "sweep"):
        kind = "several runs" if subject.runs else f"a {subject.kind}"
        raise InvalidInputError(
            f"Leave out `--watch`: it shows a run or a sweep; got {kind}."
        )

    def ignore(*_: object) -> None:
        """Prints no note, because each rebuild of the page would repeat it."""

    read = partial(_load_words, notify=ignore)
    make = lambda: reports.page_of(subject, ignore, read).retitle(title)
    with reports.serve(make, subject.path, host=host, port=port) as server:
        note(f"{server.url} shows `{subject.path}`; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):  # Ctrl-C is the documented way to stop
            server.serve_forever()


def _load_words(path: Path, notify: Callable[[str], None] = note) -> "xarray.Dataset":
    """The dataset of a run, with the words of its tokens."""
    return add_word_labels(path, runs.dataset(path), "page", notify)


def _load_run(path: Path, *, plugins: list[Path] | None) -> "xarray.Dataset":
    """The dataset of a run, with the words and attention matrices of its tokens.

    Attention matrices are computed at a few times. If they are not available, the
    attribute `lines` says why.
    """
    dataset = _load_words(path)
    reason = ""
    if times := _snapshots(dataset):
        try:
            all_plugins = load_plugins_of(path, plugins)
            return runs.add_attention(path, dataset, times, all_plugins)
        except (InvalidInputError, InputFileError, UnsupportedError) as error:
            reason = f"No lines of attention are drawn: {error}"
    elif dataset.sizes.get("token", 0) > MOST_TOKENS:
        reason = f"Lines of attention are drawn of up to {MOST_TOKENS} tokens."
    if reason:
        note(reason)
    return dataset.assign_attrs(lines=reason)


def _snapshots(dataset: "xarray.Dataset") -> list[float]:
    """Times of attention matrices: the more tokens and heads, the fewer times.

    For a model without the key `model_heads`, 16 heads are assumed.
    """
    tokens = dataset.sizes.get("token", 0)
    if "x" not in dataset or "run" in dataset.dims or tokens > MOST_TOKENS:
        return []
    from meanfield.plotting.reading.observables import even_frames

    keys = dataset.attrs.get("spec", {})
    heads = int(keys.get("heads") or 1)
    if "model" in keys:
        heads = len(keys.get("model_heads") or range(N_MODEL_HEADS))
    count = max(2, min(SNAPSHOTS, MAX_ENTRIES // (heads * tokens**2)))
    times = dataset["time"].values
    return times[even_frames(len(times), count)].tolist()
