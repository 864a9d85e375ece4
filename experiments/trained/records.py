"""Records of trained networks: committed JSON lines, one for each seed.

A network that a figure needs but that has no line is trained, in a folder from which an
interrupted training run is resumed; then its line is added. So a figure is redrawn in
seconds, and if a line is deleted, its network is trained again.
"""

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

import numpy as np

from meanfield import runs
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

N_FIRST_EPOCHS = 10  # first epochs that are all kept; later only every tenth
LOCK = threading.Lock()  # figures are computed in parallel threads
PROGRESS_SECONDS = 30.0  # seconds between two lines of progress

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Archive:
    """File of JSON lines.

    Attributes:
        file: path of the file.
        lines_of: function from the folder of a finished training run to its lines.
    """

    file: Path
    lines_of: Callable[[Path], list[Line]]

    def lines(self, spec: TrainSpec) -> list[Line]:
        """The line of each seed of a training run, in order.

        Seeds without a line are trained.
        """
        with LOCK:
            return self._lines(spec)

    def _lines(self, spec: TrainSpec) -> list[Line]:
        same = [line for line in read_lines(self.file) if line["spec"] == _key(spec)]
        by_seed = {line["seed"]: line for line in same}
        missing = tuple(seed for seed in spec.seeds if seed not in by_seed)
        if missing:
            trained = self._trained(replace(spec, seeds=missing))
            by_seed |= {line["seed"]: line for line in trained}
        return [by_seed[seed] for seed in spec.seeds]

    def _trained(self, spec: TrainSpec) -> list[Line]:
        digest = hashlib.sha256(json.dumps(spec.as_json()).encode()).hexdigest()[:16]
        folder = UNFINISHED / digest
        report = _ProgressPrinter(spec)
        if (folder / RECORD).is_file():
            resume(folder, report=report)
        else:
            shutil.rmtree(folder, ignore_errors=True)  # killed before its first commit
            train(spec, folder, report=report)
        trained = self.lines_of(folder)
        self.add(trained)
        shutil.rmtree(folder)
        return trained

    def add(self, new: list[Line]) -> None:
        """Appends lines in one write, since other processes may append, too."""
        self.file.parent.mkdir(exist_ok=True)
        lines = [json.dumps(line, separators=(",", ":")) for line in new]
        with self.file.open("ab") as stream:
            stream.truncate(self._complete_size())
            stream.write("".join(f"{line}\n" for line in lines).encode())

    def _complete_size(self) -> int:
        """Number of bytes of the complete lines."""
        return self.file.read_bytes().rfind(b"\n") + 1


def read_lines(file: Path) -> list[Line]:
    """The complete lines of a file; a truncated line has no line break."""
    text = file.read_text() if file.is_file() else ""
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def archive(
    name: str, size: Size, lines_of: Callable[[Path], list[Line]] | None = None
) -> Archive:
    """The committed archive, or a temporary one of this process for the quick size.

    The lines contain scores, unless `lines_of` is given.
    """
    folder = RECORDS if size == "paper" else Path(_scratch().name)
    return Archive(folder / f"{name}.jsonl", lines_of or score_lines)


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


def scores(line: Line, measure: str) -> np.ndarray:
    """The values of a measure, one for each test sample."""
    kept = line[measure]
    if not isinstance(kept, str):
        return np.array(kept, float)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(kept), np.uint8))
    return bits[: line["n_samples"]].astype(float)


def pack_bits(values: np.ndarray) -> Any:
    """Values 0 and 1 as hexadecimal bits; other numbers as a list."""
    if np.isin(values, (0, 1)).all():
        return np.packbits(values > 0.5).tobytes().hex()
    return round_digits(values.astype(float).tolist())


class _ProgressPrinter:
    """Prints the progress of a training run on stderr, every `PROGRESS_SECONDS`."""

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
    """The lines of a finished training run: scores of the samples, and curves."""
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


def common_entries(folder: Path) -> dict[str, Any]:
    """Entries shared by all lines: spec, date, versions, device and seconds."""
    spec = TrainFolder(folder).record().spec
    seconds = sum(json.loads((folder / "seconds.json").read_text()).values())
    return {
        "spec": _key(spec),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": runs.versions(),
        "device": runs.device(),
        "seconds": round(seconds / len(spec.seeds), 1),
    }


def _curves(log: tuple[Mapping[str, Any], ...], i: int) -> dict[str, Any]:
    """Log of one seed to four digits, at the first epochs and then every tenth."""
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
        for name in ("rms", "fraction_near", "quantiles", "rms_first"):
            curves[name] = [entry["columns"][name][i] for entry in entries]
    return {name: round_digits(values) for name, values in curves.items()}


def round_digits(values: Any) -> Any:
    """Numbers rounded to four significant digits, in nested lists."""
    if isinstance(values, list):
        return [round_digits(value) for value in values]
    return float(f"{values:.4g}") if isinstance(values, float) else values


def _key(spec: TrainSpec) -> dict[str, Any]:
    """The spec without its seeds, as JSON values."""
    return {name: value for name, value in spec.as_json().items() if name != "seeds"}
