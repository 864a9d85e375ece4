"""`meanfield train`: trains networks with the attentions of the library."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from meanfield.cli.process._plugins import load_plugins
from meanfield.cli.process._session import open_session
from meanfield.cli.terminal._output import note, print_json, print_rows
from meanfield.errors import InvalidInputError

if TYPE_CHECKING:
    from meanfield.training import Annealing

app = App(
    name="train",
    result_action="return_value",
    help="Train networks: list, start, resume, show, evaluate, export.\n\n"
    "The seeds of a training run are batched, and every epoch is stored.",
)


@app.command(name="list")
def list_(*, json: bool = False, plugin: list[Path] | None = None) -> None:
    """List the tasks that networks can be trained on.

    For example:
        meanfield train list

    Args:
        json: JSON on stdout instead of a table (flag).
        plugin: Python file that registers a task; may be repeated.
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
    frozen_arrays: str | None = None,
    mask: str = "",
    task_options: str | None = None,
    epochs: int = 10,
    batch_size: int = 100,
    learning_rate: float = 1e-3,
    milestones: str | None = None,
    optimiser: Literal["adam", "sgd"] = "adam",
    annealing: str | None = None,
    seeds: str = "0:3",
    validation_split: bool = False,
    distinct_samples: int | None = None,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Train networks of several seeds and store them in a new folder.

    For example:
        meanfield train start patches --epochs 3 --out digits
        meanfield train start patches --attention l2 --epochs 3 --out distances

    `meanfield train resume FOLDER` resumes an interrupted training run; the result is
    identical. Train Sinkhorn attention with fixed half-steps: --options iterations=5.

    Args:
        task: task, by name; see `train list`.
        out: folder of the training run.
        attention: attention, by name; see `list attentions`.
        options: options of the attention, as NAME=VALUE,…, such as iterations=5; see
            `show NAME`.
        frozen_arrays: comma-separated names of the arrays of the attention that are not
            trained, such as directions.
        mask: attention mask, such as causal or window:1/8, for row-wise attentions; no
            mask if absent.
        task_options: options of the task, as NAME=VALUE,…, such as patch=14; see `train
            list`.
        epochs: number of epochs.
        batch_size: batch size, in samples.
        learning_rate: learning rate of the optimiser.
        milestones: comma-separated epochs, counted from 1, such as 35,41; the learning
            rate is divided by ten at the beginning of each; none if absent.
        optimiser: optimiser: adam, or sgd with momentum 0.9.
        annealing: decay of a numeric option of the attention. NAME:FACTOR:EPOCH, such
            as temperature:0.8:30, multiplies the option NAME by FACTOR before each
            epoch after EPOCH.
        seeds: seeds of the networks: START:STOP (not STOP), or a list such as 0,3,7.
        validation_split: evaluation on a held-out quarter of the training set instead
            of the test set, to choose learning rates (flag).
        distinct_samples: number of training samples that are used, repeated to fill
            each epoch, to see whether networks can fit them; all if absent.
        json: JSON object on stdout instead of tables (flag).
        plugin: Python file that registers a task or an attention; may be repeated.
    """
    _begin(plugin)
    from meanfield.cli.jobs import _training
    from meanfield.training import Recipe, TrainSpec, Variant

    schedule = tuple(_numbers("milestones", milestones)), optimiser
    recipe = Recipe(epochs, batch_size, learning_rate, *schedule, _annealing(annealing))
    variant = Variant(attention, _options_of(options), _split_list(frozen_arrays), mask)
    settings = tuple(_seeds(seeds)), _options_of(task_options), validation_split
    spec = TrainSpec(task, variant, recipe, *settings, distinct_samples)
    _training.start_training(spec, out, plugin or [], json=json)


@app.command
def resume(
    folder: Path, /, *, json: bool = False, plugin: list[Path] | None = None
) -> None:
    """Resume an interrupted training run; its result has the same bytes.

    For example:
        meanfield train resume digits

    Args:
        folder: folder of the training run.
        json: JSON object on stdout instead of tables (flag).
        plugin: Python file that registers a task or an attention; may be repeated.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import resume as rest

    label = _training.load_record(folder).spec.variant.label
    job = partial(rest, folder, plugins=plugin or [])
    _training.run_training(job, label, folder, json=json)


@app.command
def show(
    folder: Path,
    baseline: Path | None = None,
    /,
    *,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Show a training run, or compare it with another that has the same seeds.

    For example:
        meanfield train show digits
        meanfield train show distances digits  # is the first better?

    Args:
        folder: folder of the training run.
        baseline: folder of a baseline with the same task and seeds; differences are
            paired by seed.
        json: JSON object on stdout instead of tables (flag).
        plugin: Python file that registers a task or an attention; may be repeated.
    """
    _begin(plugin, *([folder] if baseline is None else [folder, baseline]))
    from meanfield.cli.jobs import _training

    if baseline is None:
        record = _training.load_record(folder)
        _training.report(record, folder, json=json)
    else:
        _training.compare(folder, baseline, json=json)


@app.command
def evaluate(
    folder: Path,
    /,
    *,
    attention: str,
    options: str | None = None,
    json: bool = False,
    plugin: list[Path] | None = None,
) -> None:
    """Evaluate trained networks with another attention in place of their own.

    For example:
        meanfield train evaluate digits --attention sinkhorn

    The other attention uses the trained arrays, and its own options.

    Args:
        folder: folder of the training run.
        attention: attention with the same arrays, by name; see `list attentions`. The
            mask of the training run is kept.
        options: options of that attention, as NAME=VALUE,…, such as iterations=5; see
            `show NAME`.
        json: JSON object on stdout instead of a table (flag).
        plugin: Python file that registers a task or an attention; may be repeated.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import Variant

    variant = Variant(attention, _options_of(options))
    _training.print_evaluation(folder, variant, plugin or [], json=json)


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
    """Write the attention heads of one trained network as a model.

    For example:
        meanfield train export digits heads
        meanfield models inspect heads

    Args:
        folder: folder of the training run.
        out: folder of the model, which must not exist.
        seed: seed of the network; the first seed if absent.
        epoch: epoch of the weights: 0, 1, 2, 4, … or the last one; the last if absent.
        plugin: Python file that registers a task or an attention; may be repeated.
    """
    _begin(plugin, folder)
    from meanfield.cli.jobs import _training
    from meanfield.training import export as exported

    record = _training.load_record(folder)
    network_seed = record.spec.seeds[0] if seed is None else seed
    note(f"wrote {exported(folder, out, seed=network_seed, epoch=epoch)}")


def _begin(plugins: list[Path] | None, *folders: Path) -> None:
    """Starts JAX in single precision, the precision of training, and loads plugins.

    The plugins must not have changed since the training runs in `folders` began.
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


def _split_list(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


def _numbers(option: str, text: str | None) -> list[int]:
    try:
        return [int(word) for word in _split_list(text)]
    except ValueError:
        raise InvalidInputError(
            f"`--{option}` must be comma-separated integers; got `{text}`."
        ) from None


def _annealing(text: str | None) -> "Annealing | None":
    from meanfield.training import Annealing

    if text is None:
        return None
    try:
        option, factor, delay = text.split(":")
        return Annealing(option.strip(), float(factor), int(delay))
    except ValueError:
        raise InvalidInputError(
            "`--annealing` must be NAME:FACTOR:EPOCH, such as temperature:0.8:30; got "
            f"`{text}`."
        ) from None


def _seeds(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    if not colon:
        return _numbers("seeds", text)
    ends = _numbers("seeds", first or "0") + _numbers("seeds", last)
    return list(range(*ends))
