"""Running experiments: figures and a JSON beside them, each from the same numbers."""

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
from meanfield.errors import SimulationFailed
from meanfield.plotting import save
from meanfield.storage.disk import replace_text
from meanfield.workers import threads

from ._experiment import Case, Experiment, Findings, Reading, Size

Compute = Callable[[Case], Findings]
Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Reproduced:
    """One figure, made.

    Attributes:
        files: what was written: PDF, PNG and JSON.
        caption: its caption, with the numbers.
        seconds: spent on computing, and on drawing.

    Examples:
        >>> from pathlib import Path
        >>> from meanfield.reproduce import Reproduced
        >>> Reproduced("fig1", (Path("fig1.pdf"),), "It falls.", (1.5, 0.5)).caption
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
) -> list[Reproduced]:
    """Computes and draws experiments into `NAME.pdf`, `.png` and `.json`.

    A reading other than an experiment's first is written as `NAME-READING.*`. Figures
    that one function computes are computed once; the cores compute one each, and
    compile meanwhile, and figures are drawn in their order.

    Args:
        figures: experiments by name.
        size: of all of them.
        reading: of all of them; each one's first if `None`.
        folder: where to; made if it is not there.
        report: told the number of a figure, from 1, how many there are, and its name,
            before it is waited for.

    Raises:
        ResourceError: if the folder cannot be written; before the work.
        SimulationFailed: if a number that was measured is not finite.

    Examples:
        >>> from pathlib import Path
        >>> from matplotlib.figure import Figure
        >>> from meanfield.reproduce import Experiment, Findings, reproduce
        >>> findings = Findings(spec={}, numbers={"gap": 1e-6}, data={})
        >>> parts = "here", "It falls.", "to {gap:.0e}"
        >>> falls = Experiment(*parts, lambda case: findings, lambda found: Figure())
        >>> (made,) = reproduce({"falls": falls}, "quick", "text", Path("figures"))
        >>> made.caption, sorted(file.suffix for file in made.files)
        ('to 1e-06', ['.json', '.pdf', '.png'])
    """
    begin_in(folder)
    parts = [_part(name, e, size, reading) for name, e in figures.items()]
    calls = [(part.experiment.compute, part.case) for part in parts]
    pictures = []
    with threads() as computers:
        results = {c: computers.submit(_timed, *c) for c in dict.fromkeys(calls)}
        for number, (part, call) in enumerate(zip(parts, calls, strict=True), 1):
            if report is not None:
                report(number, len(parts), part.name)
            pictures.append(_draw(part, results[call].result(), folder))
    return pictures


class Part(NamedTuple):
    """One figure in one reading, and the name of its files."""

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


class Timed(NamedTuple):
    """What was found, and the seconds it took."""

    findings: Findings
    seconds: float


def _timed(compute: Compute, case: Case) -> Timed:
    begin = time.perf_counter()
    return Timed(compute(case), time.perf_counter() - begin)


def _draw(part: Part, result: Timed, folder: Path) -> Reproduced:
    begin = time.perf_counter()
    text = _json(part, result.findings)
    pictures = save(part.experiment.draw(result.findings), folder / part.stem)
    record = folder / f"{part.stem}.json"
    replace_text(record, text)
    drawing = time.perf_counter() - begin
    caption = caption_of(part.experiment, result.findings)
    seconds = (result.seconds, drawing)
    return Reproduced(part.name, (*pictures, record), caption, seconds)


def begin_in(folder: Path) -> None:
    """Makes a folder, and makes sure that it can be written, before the work.

    Raises:
        ResourceError: if it cannot.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def caption_of(experiment: Experiment, findings: Findings) -> str:
    """The caption, its fields filled with numbers of the same run.

    Examples:
        >>> from meanfield.reproduce import Experiment, Findings, caption_of
        >>> experiment = Experiment(
        ...     "here",
        ...     "It falls.",
        ...     "to {gap:.1e}",
        ...     lambda case: None,
        ...     lambda found: None,
        ... )
        >>> caption_of(experiment, Findings(spec={}, numbers={"gap": 1e-6}, data={}))
        'to 1.0e-06'
    """
    return experiment.caption.format_map(findings.numbers)


def _json(part: Part, findings: Findings) -> str:
    name, _, experiment, case = part
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
            f"`{name}` found a number that is not finite: its numbers are no result; "
            "please report it."
        ) from error
