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
    Variant,
    Verdict,
    examined,
    tasks,
    verdict,
)


def tasks_and_options() -> list[dict[str, Any]]:
    """The tasks, each with its options and their defaults."""
    return [
        {
            "name": name,
            "options": ", ".join(
                f"{option.name}={option.default}"
                for option in dataclasses.fields(cast(Any, task))
            ),
            "what": summary(task),
        }
        for name, task in tasks.items()
    ]


def conclude(
    job: Callable[..., Record], label: str, folder: Path, *, in_json: bool
) -> None:
    """Trains, with progress, and reports.

    Raises:
        KeyboardInterrupt: saying how to go on, once an epoch is committed.
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
    report(record, folder, in_json=in_json)


def _show(progress: RunProgress, step: Progress) -> None:
    left = step.seconds * (step.epochs - step.epoch)
    loss = float(np.median(step.entry["train_loss"]))
    progress.show(
        step.epoch / step.epochs,
        f"epoch {step.epoch}/{step.epochs}  loss {loss:.3g}  {left:.0f} s left",
    )


def checked_record(folder: Path) -> Record:
    """The record of a training, with a note where its files have no digests."""
    record = TrainFolder(folder).record()
    if not record.has_digests:
        note(
            f"`{folder}` was written by version 0.2, without digests: what it holds "
            "cannot be verified"
        )
    return record


def examine(
    folder: Path, variant: Variant, plugins: Sequence[Path], *, in_json: bool
) -> None:
    """Reports the means of networks with another attention, and with their own."""
    seeds = checked_record(folder).spec.seeds
    with_own = _means(examined(folder, plugins=plugins))
    with_other = _means(examined(folder, variant, plugins=plugins))
    if in_json:
        means = {"test": with_other, "own": with_own}
        print_json({"out": str(folder), "attention": variant.label, **means})
        return
    beside = {f"{name}, own": means for name, means in with_own.items()}
    print_rows(_by_seed(seeds, {**beside, **with_other}))


def _means(measures: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Those over the items of each seed."""
    double = {name: np.asarray(v, np.float64) for name, v in measures.items()}
    return {name: list(map(float, v.mean(axis=1))) for name, v in double.items()}


def compare(folder: Path, baseline: Path, *, in_json: bool) -> None:
    """What paired differences say of all that both have measured.

    Raises:
        InvalidInputError: if the two do not have the same task, options and seeds.
    """
    first, second = map(checked_record, (folder, baseline))
    for name in ("task", "options", "seeds", "rehearsal"):
        ours, others = (getattr(one.spec, name) for one in (first, second))
        if ours != others:
            raise InvalidInputError(
                f"`{folder}` and `{baseline}` differ in `{name}`, {ours} and {others}: "
                "differences are taken seed by seed of one task."
            )
    tests = [one.log[-1]["test"] for one in (first, second)]
    if tests[0].keys() != tests[1].keys():
        raise InvalidInputError(
            f"`{folder}` and `{baseline}` have measured different things, "
            f"{', '.join(tests[0])} and {', '.join(tests[1])}: compare trainings of "
            "one version of the task."
        )
    verdicts = {name: verdict(v, tests[1][name]) for name, v in tests[0].items()}
    if in_json:
        print_json({name: dataclasses.asdict(v) for name, v in verdicts.items()})
        return
    print_rows([{"measure": name, **_row(v)} for name, v in verdicts.items()])
    sys.stdout.write(
        "mean: of the first less the second, with its interval at 95 %. seen: the "
        "smallest mean that so many pairs would see nine times in ten.\n"
    )


def _row(result: Verdict) -> dict[str, str]:
    low, high = result.interval
    above = {"reproduced": "more", "contradicted": "less"}
    return {
        "mean": f"{result.mean:+.4f}",
        "interval": f"{low:+.4f} … {high:+.4f}",
        "median": f"{result.median:+.4f}",
        "seen": number(result.seen, 2),
        "the first has": above.get(result.word, str(result.word)),
    }


def report(record: Record, folder: Path, *, in_json: bool) -> None:
    """What was measured last, for people or for programs."""
    if in_json:
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
            "epochs": f"{record.epoch} of {spec.recipe.epochs}",
            "examined on": "items of its own" if spec.rehearsal else "the test",
        }
    )
    sys.stdout.write("\n")
    entry = record.log[-1]
    columns = dict(entry["test"])
    if "columns" in entry:
        rms = np.sqrt(np.mean(np.square(entry["columns"]["rms"]), axis=(1, 2)))
        columns["columns off 1"] = rms.tolist()
    print_rows(_by_seed(spec.seeds, columns))
    if not record.is_done:
        note(f"not finished; go on with `meanfield train resume {folder}`")


def _by_seed(
    seeds: Sequence[int], columns: Mapping[str, list[float]]
) -> list[dict[str, str]]:
    """A row for each seed, and their median."""
    names = [*map(str, seeds), "median"]
    values = {name: [*v, float(np.median(v))] for name, v in columns.items()}
    return [
        {"seed": seed, **{name: number(v[i], 4) for name, v in values.items()}}
        for i, seed in enumerate(names)
    ]
