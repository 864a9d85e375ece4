"""Records of trained networks: committed JSON lines, one for each seed.

If a figure needs a network that has no line yet, the network is trained and its line is
added. Training uses a folder from which an interrupted run is resumed. So a figure is
redrawn in seconds, and if a line is deleted, its network is trained again.
"""

import fcntl
import functools
import hashlib
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from meanfield import runs
from meanfield.errors import SimulationError
from meanfield.reproduce import Size
from meanfield.training import (
    RECORD,
    Progress,
    TrainFolder,
    TrainSpec,
    evaluate,
    resume,
    train,
)

FOLDER = Path(__file__).resolve().parent
RECORDS, UNFINISHED = FOLDER / "records", FOLDER / "unfinished"

N_FIRST_EPOCHS = 10  # all epochs up to this one are recorded, then every tenth
LOCK = threading.Lock()  # parallel threads may compute several figures
PROGRESS_SECONDS = 30.0  # time between two reports of progress, in seconds

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Archive:
    """File of records, one JSON line for each trained network.

    Attributes:
        file: path of the file.
        lines_of: function that makes records from the folder of a run.
        has_diverged_runs: whether runs that end with a loss that is not finite are
            recorded; otherwise they raise.
    """

    file: Path
    lines_of: Callable[[Path], list[Line]]
    has_diverged_runs: bool = False

    def lines(self, spec: TrainSpec) -> list[Line]:
        """The record of each seed of a training run, in order.

        Networks of seeds without a record are trained first, one at a time, since
        rounding errors depend on the number of networks in a batch.
        """
        with LOCK:
            return self._lines(spec)

    def _lines(self, spec: TrainSpec) -> list[Line]:
        same = [line for line in read_lines(self.file) if line["spec"] == _key(spec)]
        by_seed = {line["seed"]: line for line in same}
        for seed in spec.seeds:
            if seed not in by_seed:
                (by_seed[seed],) = self._trained(replace(spec, seeds=(seed,)))
        return [by_seed[seed] for seed in spec.seeds]

    def _trained(self, spec: TrainSpec) -> list[Line]:
        digest = hashlib.sha256(json.dumps(spec.as_json()).encode()).hexdigest()[:16]
        folder = UNFINISHED / digest
        report = _ProgressPrinter(spec)
        try:
            if (folder / RECORD).is_file():
                resume(folder, report=report)
            else:
                shutil.rmtree(folder, ignore_errors=True)  # from a killed process
                train(spec, folder, report=report)
        except SimulationError:
            if not self.has_diverged_runs:
                raise
        trained = self.lines_of(folder)
        self.add(trained)
        shutil.rmtree(folder)
        jax.clear_caches()  # a process can hold the programs of some 200 trainings only
        return trained

    def add(self, new: list[Line]) -> None:
        """Appends records; the file is locked, since other processes append as well."""
        self.file.parent.mkdir(exist_ok=True)
        lines = [json.dumps(line, separators=(",", ":")) for line in new]
        with self.file.open("ab") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.truncate(self._complete_size())
            stream.write("".join(f"{line}\n" for line in lines).encode())

    def _complete_size(self) -> int:
        """Number of bytes of the complete lines in the file."""
        return self.file.read_bytes().rfind(b"\n") + 1


def read_lines(file: Path) -> list[Line]:
    """The records in a file; an incomplete last line is ignored."""
    text = file.read_text() if file.is_file() else ""
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def archive(
    name: str, size: Size, lines_of: Callable[[Path], list[Line]] | None = None
) -> Archive:
    """The committed archive called `name`, or a temporary one for the quick size.

    Its records contain scores, unless `lines_of` makes other records.
    """
    return Archive(_folder(size) / f"{name}.jsonl", lines_of or score_lines)


def tuning_archive(name: str, size: Size) -> Archive:
    """Archive of runs for tuning and for the gate, some of which may diverge."""
    file = _folder(size) / f"{name}-tuning.jsonl"
    return Archive(file, _short_lines, has_diverged_runs=True)


def _folder(size: Size) -> Path:
    return RECORDS if size == "paper" else Path(_scratch().name)


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


def scores(line: Line, measure: str) -> np.ndarray:
    """The values of a quantity in a record, one for each test sample."""
    kept = line[measure]
    if not isinstance(kept, str):
        return np.array(kept, float)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(kept), np.uint8))
    return bits[: line["n_samples"]].astype(float)


def pack_bits(values: np.ndarray) -> Any:
    """Values that are all 0 or 1 as hexadecimal digits, and other values as a list."""
    if np.isin(values, (0, 1)).all():
        return np.packbits(values > 0.5).tobytes().hex()
    return round_digits(values.astype(float).tolist())


class _ProgressPrinter:
    """Prints the progress of a training run on stderr every `PROGRESS_SECONDS`."""

    def __init__(self, spec: TrainSpec) -> None:
        self._name = f"{spec.task} {dict(spec.options)}: {spec.variant.label}"
        self._last = time.monotonic()

    def __call__(self, step: Progress) -> None:
        if time.monotonic() - self._last < PROGRESS_SECONDS:
            return
        self._last = time.monotonic()
        seconds_left = step.seconds * (step.epochs - step.epoch)
        progress = f"epoch {step.epoch} of {step.epochs}"
        sys.stderr.write(
            f"{self._name}: {progress}, {seconds_left / 60:.0f} min left\n"
        )


def score_lines(folder: Path) -> list[Line]:
    """Records of a finished training run: scores of test samples, and curves."""
    record = TrainFolder(folder).record()
    measured = evaluate(folder)
    common = common_entries(folder)
    return [
        {
            "seed": seed,
            **common,
            "n_samples": measured["loss"].shape[1],
            **{name: pack_bits(v[i]) for name, v in measured.items() if name != "loss"},
            **_curves(record.log, i),
        }
        for i, seed in enumerate(record.spec.seeds)
    ]


def _short_lines(folder: Path) -> list[Line]:
    """Records with means and losses only; `None` if the run diverged."""
    record = TrainFolder(folder).record()
    common = common_entries(folder)
    first, last = record.log[0]["test"], record.log[-1]
    lines = []
    for i, seed in enumerate(record.spec.seeds):
        means = {name: round_digits(m[i]) for name, m in last["test"].items()}
        entries = {"means": None, "train_loss": None}
        if record.is_done:
            loss = round_digits(last["train_loss"][i])
            entries = {"means": means, "train_loss": loss}
        first_loss = round_digits(first["loss"][i])
        lines.append({"seed": seed, **common, **entries, "first_loss": first_loss})
    return lines


def common_entries(folder: Path) -> dict[str, Any]:
    """Entries that all records share: spec, date, versions, device and seconds."""
    spec = TrainFolder(folder).record().spec
    file = folder / "seconds.json"  # which a run that diverged at once does not have
    times = json.loads(file.read_text()) if file.is_file() else {}
    seconds = sum(times.values())
    return {
        "spec": _key(spec),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": runs.versions(),
        "device": runs.device(),
        "seconds": round(seconds / len(spec.seeds), 1),
    }


def _curves(log: tuple[Mapping[str, Any], ...], i: int) -> dict[str, Any]:
    """Training log of one seed at the recorded epochs, rounded to four digits."""
    last = len(log) - 1
    kept = [
        e
        for e in range(len(log))
        if e <= N_FIRST_EPOCHS or e % N_FIRST_EPOCHS == 0 or e == last
    ]
    entries = [log[e] for e in kept]
    curves = {
        "epochs": kept,
        "train_loss": [entry["train_loss"][i] for entry in entries[1:]],
        **{
            f"test_{name}": [entry["test"][name][i] for entry in entries]
            for name in entries[0]["test"]
        },
    }
    if "columns" in log[0]:
        for name in (
            "rms",
            "fraction_near",
            "quantiles",
            "rms_first",
            "relative_perplexity",
        ):
            curves[name] = [entry["columns"][name][i] for entry in entries]
    return {name: round_digits(values) for name, values in curves.items()}


def round_digits(values: Any) -> Any:
    """Rounds the numbers in nested lists to four significant digits."""
    if isinstance(values, list):
        return [round_digits(value) for value in values]
    return float(f"{values:.4g}") if isinstance(values, float) else values


def _key(spec: TrainSpec) -> dict[str, Any]:
    """A training spec without its seeds, as JSON values."""
    return {name: value for name, value in spec.as_json().items() if name != "seeds"}
