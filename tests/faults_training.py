"""Kills, full disks, two writers and flipped bits during training.

`python tests/faults_training.py --kills 50 --writers 10 --disks 30 --flips 200` writes
a line of JSON for each case, and counts them in the last. Faults are a final state that
differs from an undisturbed training in any byte (`lost`), exit 0 with wrong numbers
(`false`), an `internal` error, an `undocumented` exit code and a `hang`.

Commands that are stopped run in processes forked from this one, which has imported the
package and computed nothing; so flips, which are tested in this process, come last.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from faults_checks import faults_of
from faults_commands import (
    DOCUMENTED_CODES,
    CommandResult,
    run_command,
    run_in_process,
    start_command,
    wait,
)
from faults_damage import flip

EPOCHS, N_FLIP_EPOCHS = 200, 4
OPTIONS = "--batch-size 20 --seeds 0:2 --task-options count=100 --plugin mine.py"
MACHINE_FILES = "seconds.json", "lock"
PATIENCE = 300.0  # seconds per epoch, on a busy machine
CaseResult = tuple[str, CommandResult, list[str]]


def start(out: str, epochs: int = EPOCHS) -> list[str]:
    """The command that starts a training."""
    command = f"train start pairs --epochs {epochs} {OPTIONS} --out {out}"
    return command.split()


def resume(folder: str) -> list[str]:
    """The command that resumes a training."""
    return f"train resume {folder} --plugin mine.py".split()


def next_command(place: Path) -> list[str]:
    """The command that continues the training `new` from its present state."""
    return (
        resume("new") if (place / "new" / "training.json").is_file() else start("new")
    )


def epoch_of(place: Path) -> int:
    """The number of committed epochs of `new`; -1 before the first commit."""
    file = place / "new" / "training.json"
    return json.loads(file.read_bytes())["epoch"] if file.is_file() else -1


def files(folder: Path) -> dict[str, bytes]:
    """The files that must be equal to the byte."""
    files = (file for file in folder.iterdir() if file.name not in MACHINE_FILES)
    return {file.name: file.read_bytes() for file in files}


def ending_faults(place: Path) -> list[str]:
    """Resumes `new` to its end, and compares it with an undisturbed training."""
    result = run_command(next_command(place), place)
    actual = faults_of(result, {0})
    return actual + ([] if files(place / "new") == files(place / "whole") else ["lost"])


def kill(draw: random.Random, place: Path) -> CaseResult:
    """Kills a training between two epochs or, in a quarter of cases, at any moment."""
    before, begin = epoch_of(place), time.monotonic()
    process = start_command(next_command(place), place, None, fresh=False)
    if draw.random() < 0.25:
        time.sleep(draw.uniform(0, 12))
    else:
        while epoch_of(place) <= max(before, 0):
            assert time.monotonic() < begin + PATIENCE, "no epoch came"
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
    os.kill(process, signal.SIGKILL)
    result = wait(process, place)
    actual = faults_of(result, {0, -9})
    case = f"kill after epoch {epoch_of(place)}"
    if epoch_of(place) == EPOCHS:
        actual += [] if files(place / "new") == files(place / "whole") else ["lost"]
        shutil.rmtree(place / "new")
    return case, result, actual


def writers(draw: random.Random, place: Path) -> CaseResult:
    """Starts or resumes one training by two processes at once."""
    first = start_command(next_command(place), place, None, fresh=False)
    time.sleep(draw.choice([0, draw.uniform(0, 8)]))
    second = start_command(next_command(place), place, None, fresh=False)
    ends = wait(first, place), wait(second, place)
    codes = sorted(int(result.code or 0) for result in ends)
    actual = [fault for result in ends for fault in faults_of(result, {0, 2, 7})]
    actual += [] if 0 in codes else ["lost"]
    actual += ending_faults(place)
    shutil.rmtree(place / "new")
    return f"two writers, codes {codes}", ends[1], actual


def full_disk(draw: random.Random, place: Path) -> CaseResult:
    """Limits files to a random length, then lifts the limit."""
    limit = int(2 ** draw.uniform(4, 18))
    result = run_command(next_command(place), place, limit=limit)
    actual = faults_of(result, {0, 4})
    if epoch_of(place) == EPOCHS or draw.random() < 0.2:
        actual += ending_faults(place)
        shutil.rmtree(place / "new")
    return f"files end at {limit}", result, actual


def damage(draw: random.Random, place: Path) -> CaseResult:
    """Flips a bit of a finished or unfinished training, and reads it in every way."""
    jax.clear_caches()  # each command compiles anew, and memory maps are limited
    name = draw.choice(["few", "half"])
    copy = shutil.copytree(place / name, place / "kept")
    flip(draw, place / name, place)
    ends = {text: answer(place, text) for text in readers(name)}
    actual = [
        f for result, _ in ends.values() for f in faults_of(result, DOCUMENTED_CODES)
    ]
    for text, (result, text_output) in ends.items():
        if result.code == 0 and text_output != TRUTH[text]:
            actual.append("false")
    shutil.rmtree(place / name)
    copy.rename(place / name)
    failures = [result for result, _ in ends.values() if result.code]
    case = f"a bit of {name}: rejected by {len(failures)} of {len(ends)}"
    return case, next(iter(failures), CommandResult(0, "", 0.0)), actual


TRUTH: dict[str, Any] = {}


def readers(name: str) -> list[str]:
    """The commands that read a folder."""
    epochs = (0, 1, 2, 4) if name == "few" else (0, 1, 2)
    exports = [
        f"export {name} heads --epoch {e} --seed {s}" for e in epochs for s in "01"
    ]
    last = f"resume {name} --json" if name == "half" else f"evaluate {name} --json"
    options = " --attention softmax" if name == "few" else ""
    return [f"show {name} --json", *exports, last + options]


def answer(place: Path, text: str) -> tuple[CommandResult, Any]:
    """The exit code of a `train` command, and the numbers that it prints or writes."""
    out = place / "heads"
    shutil.rmtree(out, ignore_errors=True)
    result = run_in_process(["train", *text.split(), "--plugin", "mine.py"], place)
    if text.startswith("export"):
        return result, files(out) if out.is_dir() else None
    if text.startswith("resume"):
        return result, news(place / "half") if result.code == 0 else None
    return result, result.out


def news(folder: Path) -> dict[str, bytes]:
    """The files of the last epoch; `resume` reads no earlier weights."""
    before = {f"weights-{epoch:04d}.safetensors" for epoch in range(N_FLIP_EPOCHS)}
    return {name: data for name, data in files(folder).items() if name not in before}


def prepare(place: Path) -> None:
    """Prepares the task, and an undisturbed training."""
    from meanfield._folders import templates

    shutil.copy(templates()["task"], place / "mine.py")
    for _ in range(20):  # in parts, each shorter than the limit for a hang
        if files_are_done(place / "whole"):
            return
        has_started = (place / "whole" / "training.json").is_file()
        run_command(resume("whole") if has_started else start("whole"), place)
    raise AssertionError("a training that nobody disturbed did not end")


def files_are_done(folder: Path) -> bool:
    """Whether the last epoch of a training is committed."""
    return (folder / f"weights-{EPOCHS:04d}.safetensors").is_file() and (
        folder / f"state-{EPOCHS:04d}.safetensors"
    ).is_file()


def prepare_flips(place: Path) -> None:
    """Prepares a short training, a copy before its last epoch, and their output."""
    from meanfield._folders import templates

    shutil.copy(templates()["task"], place / "mine.py")
    result = run_in_process([*start("few", N_FLIP_EPOCHS), "--debug"], place)
    assert result.code == 0, result.stderr
    from meanfield.training import TrainFolder, TrainSpec, train

    spec = TrainSpec.from_json(TrainFolder(place / "few").record().spec.as_json())

    def interrupt(step: Any) -> None:
        if step.epoch == N_FLIP_EPOCHS - 1:
            raise KeyboardInterrupt

    try:
        train(spec, place / "half", plugins=[place / "mine.py"], report=interrupt)
    except KeyboardInterrupt:
        shutil.copytree(place / "half", place / "saved")
    for name in ("few", "half"):
        for text in readers(name):
            result, TRUTH[text] = answer(place, text)
            assert result.code == 0, result.stderr
    shutil.rmtree(place / "half")
    (place / "saved").rename(place / "half")


KINDS: dict[str, Callable[[random.Random, Path], CaseResult]] = {
    "kills": kill,
    "writers": writers,
    "disks": full_disk,
    "flips": damage,
}


def run_cases(
    counts: dict[str, int], seed: int, place: Path
) -> Iterator[dict[str, Any]]:
    """Runs all cases, kind by kind."""
    if any(count for kind, count in counts.items() if kind != "flips"):
        prepare(place)
    for kind, count in counts.items():
        if kind == "flips" and count:
            prepare_flips(place)
        for index in range(count):
            case, result, actual = KINDS[kind](
                random.Random(f"{seed} {kind} {index}"), place
            )
            message = (
                result.stderr
                if actual
                else (result.stderr.strip().splitlines() or [""])[-1]
            )
            line = {"kind": kind, "index": index, "case": case, "code": result.code}
            yield {**line, "faults": actual, "said": message[-2000:]}
        if kind != "flips" and (place / "new").exists():
            actual = ending_faults(place)
            shutil.rmtree(place / "new")
            yield {"kind": kind, "case": "went on to its end", "faults": actual}


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills and damage of trainings.")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    seed, tally = options.pop("seed"), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        import meanfield.cli.jobs._training  # noqa: F401 - before forks

        for case in run_cases(options, seed, Path(folder)):
            sys.stdout.write(json.dumps(case) + "\n")
            sys.stdout.flush()
            tally.update([case["kind"], *(f"WRONG {f}" for f in case["faults"])])
    sys.stdout.write(json.dumps({"seed": seed, "counts": tally}) + "\n")
    sys.exit(any(name.startswith("WRONG") for name in tally))


if __name__ == "__main__":
    main()
