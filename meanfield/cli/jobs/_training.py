"""The part of `train` that needs JAX: progress and reports."""

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from meanfield.cli.options._names import summary
from meanfield.cli.terminal._console import RunProgress
from meanfield.cli.terminal._output import (
    note,
    number,
    print_json,
    print_pairs,
    print_rows,
)
from meanfield.errors import InvalidInputError
from meanfield.training import (
    RECORD,
    Progress,
    Record,
    TrainFolder,
    TrainSpec,
    Variant,
    Verdict,
    evaluate,
    tasks,
    train,
    verdict,
)


def tasks_and_options() -> list[dict[str, Any]]:
    """Table rows of the tasks, with their options and defaults."""
    return [
        {
            "name": name,
            "options": ", ".join(
                f"{option.name}={option.default}"
                for option in dataclasses.fields(cast(Any, task))
            ),
            "description": summary(task),
        }
        for name, task in tasks.items()
    ]


def start_training(
    settings: TrainSpec, folder: Path, plugins: Sequence[Path], *, json: bool
) -> None:
    """Trains the networks of a spec in a new folder, and prints the report."""
    job = partial(train, settings, folder, plugins=plugins)
    run_training(job, settings.variant.label, folder, json=json)


def run_training(
    job: Callable[..., Record], label: str, folder: Path, *, json: bool
) -> None:
    """Runs a training job with a progress bar, and prints the report.

    Raises:
        KeyboardInterrupt: with advice on resuming, if an epoch has been committed.
    """
    try:
        with RunProgress(f"training {label}") as progress:
            record = job(report=partial(_show, progress))
    except KeyboardInterrupt as error:
        if not (folder / RECORD).is_file():
            raise
        epoch = TrainFolder(folder).record().epoch
        raise type(error)(
            f"interrupted after epoch {epoch}; go on with `meanfield train resume "
            f"{folder}`."
        ) from error
    report(record, folder, json=json)


def _show(progress: RunProgress, step: Progress) -> None:
    remaining = step.seconds * (step.epochs - step.epoch)
    loss = float(np.median(step.entry["train_loss"]))
    progress.show(
        step.epoch / step.epochs,
        f"epoch {step.epoch}/{step.epochs}  loss {loss:.3g}  {remaining:.0f} s left",
    )


def load_record(folder: Path) -> Record:
    """The record of a training run; prints a note if its files have no digests."""
    record = TrainFolder(folder).record()
    if not record.has_digests:
        note(
            f"`{folder}` was written before version 0.3, without digests: its files "
            "cannot be verified"
        )
    return record


def print_evaluation(
    folder: Path, variant: Variant, plugins: Sequence[Path], *, json: bool
) -> None:
    """Prints mean test results with another attention, and with the original one."""
    seeds = load_record(folder).spec.seeds
    original_means = _means(evaluate(folder, plugins=plugins))
    variant_means = _means(evaluate(folder, variant, plugins=plugins))
    if json:
        means = {"test": variant_means, "original": original_means}
        print_json({"out": str(folder), "attention": variant.label, **means})
        return
    columns = {f"{name}, original": means for name, means in original_means.items()}
    print_rows(_seed_rows(seeds, {**columns, **variant_means}))


def _means(measures: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Means over the samples, for each seed."""
    double = {name: np.asarray(v, np.float64) for name, v in measures.items()}
    return {name: list(map(float, v.mean(axis=1))) for name, v in double.items()}


def compare(folder: Path, baseline: Path, *, json: bool) -> None:
    """Compares two runs by paired differences; prints a verdict on each measure.

    Raises:
        InvalidInputError: if the two runs differ in their task, options or seeds.
    """
    first, second = map(load_record, (folder, baseline))
    specs = first.spec, second.spec
    for name in ("task", "options", "seeds", "validation_split", "distinct_samples"):
        value, baseline_value = (getattr(spec, name) for spec in specs)
        if value != baseline_value:
            raise InvalidInputError(
                f"`{folder}` and `{baseline}` must have the same `{name}`; got {value} "
                f"and {baseline_value}."
            )
    tests = [record.log[-1]["test"] for record in (first, second)]
    if tests[0].keys() != tests[1].keys():
        raise InvalidInputError(
            f"`{folder}` and `{baseline}` must record the same measures; got "
            f"{', '.join(tests[0])} and {', '.join(tests[1])}. Compare training runs "
            "of one version of the task."
        )
    verdicts = {name: verdict(v, tests[1][name]) for name, v in tests[0].items()}
    if json:
        print_json({name: dataclasses.asdict(v) for name, v in verdicts.items()})
        return
    print_rows([{"measure": name, **_row(v)} for name, v in verdicts.items()])
    sys.stdout.write(
        "mean: of the first minus the second, with its 95 % interval. detectable: "
        "smallest mean that this number of pairs detects with probability 0.9. "
        "verdict: whether the first has more or less.\n"
    )


def _row(result: Verdict) -> dict[str, str]:
    low, high = result.interval
    labels = {"reproduced": "more", "contradicted": "less"}
    return {
        "mean": f"{result.mean:+.4f}",
        "interval": f"{low:+.4f} … {high:+.4f}",
        "median": f"{result.median:+.4f}",
        "detectable": number(result.detectable_effect, 2),
        "verdict": labels.get(result.conclusion, str(result.conclusion)),
    }


def report(record: Record, folder: Path, *, json: bool) -> None:
    """Prints the results after the last epoch, as text or JSON."""
    if json:
        last = dict(record.log[-1])
        spec = record.spec.as_json()
        print_json({"out": str(folder), "epoch": record.epoch, **last, "spec": spec})
        return
    spec = record.spec
    print_pairs(
        {
            "task": spec.task,
            "options": spec.options or None,
            "attention": spec.variant.label,
            "distinct samples": spec.distinct_samples or "all",
            "epochs": f"{record.epoch} of {spec.recipe.epochs}",
            "evaluated on": "validation set" if spec.validation_split else "test set",
        }
    )
    sys.stdout.write("\n")
    entry = record.log[-1]
    columns = dict(entry["test"])
    if "columns" in entry:
        rms = np.sqrt(np.mean(np.square(entry["columns"]["rms"]), axis=(1, 2)))
        columns["column sum error"] = rms.tolist()
    print_rows(_seed_rows(spec.seeds, columns))
    if not record.is_done:
        note(f"not finished; resume it with `meanfield train resume {folder}`")


def _seed_rows(
    seeds: Sequence[int], columns: Mapping[str, list[float]]
) -> list[dict[str, str]]:
    """Table rows: one for each seed, and one with the medians over the seeds."""
    values = {name: [*v, float(np.median(v))] for name, v in columns.items()}
    return [
        {"seed": seed, **{name: number(v[i], 4) for name, v in values.items()}}
        for i, seed in enumerate([*map(str, seeds), "median"])
    ]
