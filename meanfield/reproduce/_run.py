"""Runs experiments: writes figures, and a JSON record with the same numbers."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp

from meanfield import runs
from meanfield._writing import writing
from meanfield.errors import SimulationError
from meanfield.plotting import save
from meanfield.storage.disk import replace_text
from meanfield.workers import threads

from ._experiment import Case, Experiment, Findings, Reading, Size

Compute = Callable[[Case], Findings]
Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class ReproducedFigure:
    """A reproduced figure.

    Attributes:
        name: the name of the experiment.
        files: the files that were written: PDF, PNG and JSON.
        caption: the caption, with its numbers.
        seconds: the seconds of computing, and the seconds of drawing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.reproduce import ReproducedFigure
        >>> files = (Path("fig1.pdf"),)
        >>> ReproducedFigure("fig1", files, "It falls.", (1.5, 0.5)).caption
        'It falls.'
    """

    name: str
    files: tuple[Path, ...]
    caption: str
    seconds: tuple[float, float]


def reproduce(
    figures: Mapping[str, Experiment],
    size: Size,
    reading: Reading | None,
    folder: Path,
    *,
    report: Report | None = None,
) -> list[ReproducedFigure]:
    """Runs experiments, and writes `NAME.pdf`, `.png` and `.json` for each.

    A reading other than an experiment's first is written as `NAME-READING.*`. A
    computation that several figures need runs once. Computations run in parallel, one
    per core, and figures are drawn in the order of `figures`.

    Args:
        figures: experiments by name.
        size: the size of all experiments.
        reading: the reading of all experiments; their first readings if `None`.
        folder: the folder of the files; created if it does not exist.
        report: called before each figure, with its number from 1, the number of
            figures, and its name.

    Raises:
        ResourceError: if the folder cannot be written; raised before any computation.
        SimulationError: if a measured number is not finite.

    Examples:
        >>> from pathlib import Path
        >>> from matplotlib.figure import Figure
        >>> from meanfield.reproduce import Experiment, Findings, reproduce
        >>> findings = Findings(spec={}, numbers={"gap": 1e-6}, data={})
        >>> parts = "here", "It falls.", "to {gap:.0e}"
        >>> falls = Experiment(*parts, lambda case: findings, lambda findings: Figure())
        >>> (made,) = reproduce({"falls": falls}, "quick", "text", Path("figures"))
        >>> made.caption, sorted(file.suffix for file in made.files)
        ('to 1e-06', ['.json', '.pdf', '.png'])
    """
    prepare_folder(folder)
    parts = [_part(name, e, size, reading) for name, e in figures.items()]
    calls = [(part.experiment.compute, part.case) for part in parts]
    pictures = []
    with threads() as pool:
        results = {c: pool.submit(_compute_and_time, *c) for c in dict.fromkeys(calls)}
        for number, (part, call) in enumerate(zip(parts, calls, strict=True), 1):
            if report is not None:
                report(number, len(parts), part.name)
            pictures.append(_draw(part, results[call].result(), folder))
    return pictures


class Part(NamedTuple):
    """One figure in one reading, with the stem of its file names."""

    name: str
    stem: str
    experiment: Experiment
    case: Case


def _part(
    name: str, experiment: Experiment, size: Size, reading: Reading | None
) -> Part:
    default = experiment.readings[0]
    case = Case(size, reading or default)
    stem = name if case.reading == default else f"{name}-{case.reading}"
    return Part(name, stem, experiment.read_as(case.reading), case)


class TimedFindings(NamedTuple):
    """The findings of a computation, and the seconds it took."""

    findings: Findings
    seconds: float


def _compute_and_time(compute: Compute, case: Case) -> TimedFindings:
    begin = time.perf_counter()
    return TimedFindings(compute(case), time.perf_counter() - begin)


def _draw(part: Part, result: TimedFindings, folder: Path) -> ReproducedFigure:
    begin = time.perf_counter()
    text = _json(part, result.findings)
    pictures = save(part.experiment.draw(result.findings), folder / part.stem)
    record = folder / f"{part.stem}.json"
    replace_text(record, text)
    drawing = time.perf_counter() - begin
    caption = part.experiment.texts(result.findings.numbers)["caption"]
    seconds = (result.seconds, drawing)
    return ReproducedFigure(part.name, (*pictures, record), caption, seconds)


def prepare_folder(folder: Path) -> None:
    """Creates a folder and checks that it can be written.

    Raises:
        ResourceError: if it cannot.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _json(part: Part, findings: Findings) -> str:
    name, _, experiment, case = part
    body: dict[str, Any] = {
        "name": name,
        "size": case.size,
        "reading": case.reading,
        **experiment.texts(findings.numbers),
        "numbers": findings.numbers,
        "spec": findings.spec,
        "versions": runs.versions(),
        "device": runs.device(),
        "dtype": jnp.result_type(float).name,
    }
    try:
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError as error:
        raise SimulationError(
            f"The figure `{name}` has a number that is not finite, so it is not valid. "
            "Please report this as a bug."
        ) from error
