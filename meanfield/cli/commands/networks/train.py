"""`meanfield train`: networks with the attentions of the library."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from meanfield.cli.process._plugins import load_plugins
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note, print_json, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.training import Cooling

app = App(
    name="train",
    result_action="return_value",
    help="Train networks: list, start, resume, show, examine, export.\n\n"
    "All seeds of one training learn side by side, and every epoch is kept.",
)


@app.command(name="list")
def list_(*, json: bool = False, plugin: list[Path] | None = None) -> None:
    """List the tasks that networks can be trained on.

    For example:
        meanfield train list

    Args:
        json: print JSON on stdout.
        plugin: a Python file that is run, and registers a task; may be repeated.
    """
    _begin(plugin)
    from meanfield.cli.jobs import _training

    (print_json if json else print_rows)(_training.tasks_and_options())


@app.command
def start(  # noqa: PLR0913 (each is an option)
    task: str,
    /,
    *,
    out: Path,
    attention: str = "softmax",
    options: str | None = None,
    given: str | None = None,
    mask: str = "",
    task_options: str | None = None,
    epochs: int = 10,
    batch: int = 100,
    rate: float = 1e-3,
    drops: str | None = None,
    optimiser: Literal["adam", "sgd"] = "adam",
    cooling: str | None = None,
    seeds: str = "0:3",
    rehearsal: bool = False,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Train networks of several seeds into a new folder.

    For example:
        meanfield train start patches --epochs 3 --out digits
        meanfield train start patches --attention l2 --epochs 3 --out distances

    Interrupted, it goes on by `meanfield train resume FOLDER`, to the same bytes.
    Sinkhorn attention is taught by half-steps: --options iterations=5.

    Args:
        task: a name from `train list`.
        out: the folder of the training.
        attention: a name from `list attentions`.
        options: of the attention, as NAME=VALUE,…; see `show NAME`.
        given: arrays of the attention that do not learn, such as directions.
        mask: what tokens see, causal or window:1/8; for attentions by rows alone.
        task_options: of the task, as NAME=VALUE,…; see `train list`.
        epochs: how often each network sees all items.
        batch: items of one step.
        rate: the size of steps.
        drops: the epochs, from 1, before which the rate falls to a tenth: 35,41.
        optimiser: adam, or sgd with momentum 0.9.
        cooling: a number of the attention, what it is multiplied by before an epoch,
            and after which epoch first: temperature:0.8:30.
        seeds: START:STOP, or numbers with commas between.
        rehearsal: examine on a quarter of what teaches, and leave the test alone: so
            rates are chosen.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers a task or an attention.
    """
    _begin(plugin)
    from meanfield.cli.jobs import _training
    from meanfield.training import Recipe, TrainSpec, Variant, train

    schedule = {"drops": tuple(_numbers("drops", drops)), "cooling": _cooling(cooling)}
    recipe = Recipe(epochs, batch, rate, optimiser=optimiser, **schedule)
    variant = Variant(attention, _options_of(options), tuple(_words(given)), mask)
    more = {"options": _options_of(task_options), "rehearsal": rehearsal}
    spec = TrainSpec(task, variant, recipe, tuple(_seeds(seeds)), **more)
    job = partial(train, spec, out, plugins=plugin or [])
    _training.conclude(job, variant.label, out, in_json=json)


@app.command
def resume(
    folder: Path, /, *, json: bool = False, plugin: list[Path] | None = None
) -> None:
    """Go on with an interrupted training, to the bytes it would have had.

    For example:
        meanfield train resume digits

    Args:
        folder: of the training.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers a task or an attention.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import resume as rest

    label = _training.checked_record(folder).spec.variant.label
    job = partial(rest, folder, plugins=plugin or [])
    _training.conclude(job, label, folder, in_json=json)


@app.command
def show(
    folder: Path,
    baseline: Path | None = None,
    /,
    *,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Show a training, or set it against another of the same seeds.

    For example:
        meanfield train show digits
        meanfield train show distances digits  # is the first better?

    Args:
        folder: of the training.
        baseline: of another, with the same seeds; differences are taken seed by seed.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers a task or an attention.
    """
    _begin(plugin, *([folder] if baseline is None else [folder, baseline]))
    from meanfield.cli.jobs import _training

    if baseline is None:
        record = _training.checked_record(folder)
        _training.report(record, folder, in_json=json)
    else:
        _training.compare(folder, baseline, in_json=json)


@app.command
def examine(
    folder: Path,
    /,
    *,
    attention: str,
    options: str | None = None,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Examine trained networks with another attention in place of theirs.

    For example:
        meanfield train examine digits --attention sinkhorn

    It takes the arrays that were taught, and its own options.

    Args:
        folder: of the training.
        attention: a name from `list attentions`, one with the same arrays. It sees
            what theirs sees.
        options: of that attention, as NAME=VALUE,…; see `show NAME`.
        json: print one JSON object on stdout.
        plugin: a Python file that is run, and registers a task or an attention.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import Variant

    variant = Variant(attention, _options_of(options))
    _training.examine(folder, variant, plugin or [], in_json=json)


@app.command
def export(
    folder: Path,
    out: Path,
    /,
    *,
    seed: int | None = None,
    epoch: int | None = None,
    plugin: list[Path] | None = None,
) -> None:
    """Write the heads of one trained network as a model.

    For example:
        meanfield train export digits heads
        meanfield models inspect heads

    Args:
        folder: of the training.
        out: the folder of the model; a new one.
        seed: of the network; the first if left out.
        epoch: after which it is taken, 0, 1, 2, 4, … or the last.
        plugin: a Python file that is run, and registers a task or an attention.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import export as exported

    record = _training.checked_record(folder)
    chosen = record.spec.seeds[0] if seed is None else seed
    note(f"wrote {exported(folder, out, seed=chosen, epoch=epoch)}")


def _begin(plugins: list[Path] | None, *folders: Path) -> None:
    """JAX in single precision, in which networks are trained, and the plugins.

    Those that trainings in folders began with must be the same.
    """
    open_session("single")
    from meanfield.training import TrainFolder

    for folder in folders if plugins else ():
        TrainFolder(folder).check_plugins(plugins or [])
    load_plugins(plugins)


def _options_of(text: str | None) -> dict[str, object]:
    from meanfield.spec import options_of

    try:
        return options_of(text) if text else {}
    except ValueError as error:
        raise InvalidInputError(f"`{text}` {error}.") from error


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []


def _numbers(option: str, text: str | None) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise InvalidInputError(
            f"`--{option}` is whole numbers with commas between; got `{text}`."
        ) from None


def _cooling(text: str | None) -> "Cooling | None":
    from meanfield.training import Cooling

    if text is None:
        return None
    try:
        option, factor, after = text.split(":")
        return Cooling(option.strip(), float(factor), int(after))
    except ValueError:
        raise InvalidInputError(
            "`--cooling` is a number of the attention, a factor and an epoch, as in "
            f"temperature:0.8:30; got `{text}`."
        ) from None


def _seeds(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    if not colon:
        return _numbers("seeds", text)
    ends = _numbers("seeds", first or "0") + _numbers("seeds", last)
    return list(range(*ends))
