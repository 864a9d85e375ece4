"""Running experiments: figures and a JSON beside them, each from the same numbers."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from meanfield import runs
from meanfield.errors import ResourceError, SimulationFailed
from meanfield.plotting import save
from meanfield.storage import replace_file

from ._experiment import Case, Experiment, Findings

Compute = Callable[[Case], Findings]


@dataclass(frozen=True)
class Reproduced:
    """One figure, made.

    Attributes:
        files: what was written: PDF, PNG and JSON.
        caption: its caption, with the numbers.
        seconds: spent on computing, and on drawing.
    """

    name: str
    files: tuple[Path, ...]
    caption: str
    seconds: tuple[float, float]


@dataclass
class Bench:
    """Findings by what computed them: figures printed twice are computed once."""

    found: dict[tuple[Compute, Case], tuple[Findings, float]] = field(
        default_factory=dict
    )

    def findings(self, experiment: Experiment, case: Case) -> tuple[Findings, float]:
        """What the experiment finds, and the seconds it took."""
        key = (experiment.compute, case)
        if key not in self.found:
            begin = time.perf_counter()
            self.found[key] = experiment.compute(case), time.perf_counter() - begin
        return self.found[key]


def reproduce(
    name: str, experiment: Experiment, case: Case, folder: Path, bench: Bench
) -> Reproduced:
    """Computes and draws an experiment into `NAME.pdf`, `.png` and `.json`.

    A reading other than the experiment's first is written as `NAME-READING.*`.

    Raises:
        ResourceError: if the folder cannot be written.
        SimulationFailed: if a number that was measured is not finite.
    """
    begin_in(folder)
    findings, computing = bench.findings(experiment, case)
    begin = time.perf_counter()
    text = _json(name, experiment, case, findings)
    default = case.reading == experiment.readings[0]
    stem = name if default else f"{name}-{case.reading}"
    pictures = save(experiment.draw(findings), folder / stem)
    record = folder / f"{stem}.json"
    replace_file(record, lambda stream: stream.write(text.encode()))
    drawing = time.perf_counter() - begin
    caption = caption_of(experiment, findings)
    return Reproduced(name, (*pictures, record), caption, (computing, drawing))


def begin_in(folder: Path) -> None:
    """Makes a folder, and makes sure that it can be written, before the work.

    Raises:
        ResourceError: if it cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ResourceError(
            f"`{folder}` cannot be written: {error.strerror or error}; choose another "
            "folder by --out."
        ) from error


def caption_of(experiment: Experiment, findings: Findings) -> str:
    """The caption, its fields filled with numbers of the same run."""
    return experiment.caption.format_map(findings.numbers)


def _json(name: str, experiment: Experiment, case: Case, findings: Findings) -> str:
    body: dict[str, Any] = {
        "name": name,
        "source": experiment.source,
        "claim": experiment.claim,
        "size": case.size,
        "reading": case.reading,
        "caption": caption_of(experiment, findings),
        "numbers": findings.numbers,
        "spec": findings.spec,
        "versions": runs.versions(),
        "device": runs.device(),
        "dtype": jnp.result_type(float).name,
    }
    try:
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise SimulationFailed(
            f"`{name}` found a number that is not finite: its numbers are no result."
        ) from error
