"""Running experiments: figures and a JSON beside them, each from the same numbers."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meanfield import runs
from meanfield.errors import ResourceError
from meanfield.plotting import save

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
    """
    findings, computing = bench.findings(experiment, case)
    begin = time.perf_counter()
    figure = experiment.draw(findings)
    default = case.reading == experiment.readings[0]
    stem = name if default else f"{name}-{case.reading}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = save(figure, folder / stem)
        record = folder / f"{stem}.json"
        record.write_text(_json(name, experiment, case, findings), encoding="utf-8")
    except OSError as error:
        raise ResourceError(
            f"`{folder}` cannot be written: {error.strerror or error}."
        ) from error
    drawing = time.perf_counter() - begin
    caption = caption_of(experiment, findings)
    return Reproduced(name, (*pictures, record), caption, (computing, drawing))


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
        "dtype": "float64",
    }
    # A number that is not finite is a mistake of the experiment, and no JSON.
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
