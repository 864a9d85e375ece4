"""`meanfield bench`: ours against what a user would pick instead."""

import importlib
import json as json_module
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from meanfield import plotting
from meanfield._folders import holder
from meanfield._reading import json_value, read_text
from meanfield._writing import check_writable
from meanfield.cli.terminal._output import finite, note, note_step, print_json
from meanfield.errors import InputFileError, InvalidInputError, VerificationFailed

FOLDER = "benchmarks"


def bench(
    *,
    case: list[str] | None = None,
    method: list[str] | None = None,
    quick: bool = False,
    long: bool = False,
    out: Path | None = None,
    docs: Path | None = None,
    results: list[Path] | None = None,
    json: bool = False,
) -> None:
    """Measure time, memory and error beside other libraries.

    For example:
        meanfield bench --quick --case gaussians
        meanfield bench --quick --case gaussians --method 'ours*' --out ours.json

    Each row is measured in a process of its own; packages that are not installed are
    left out by name. With --out each row is kept when it is measured; an interrupt
    shows those that are. Ends with 6 if a measurement of ours fails.

    Args:
        case: a case, all by default; may be repeated.
        method: of which methods, such as 'ours*'; may be repeated.
        quick: small sizes, which tell nothing but that all works.
        long: whole flows of a million tokens, too.
        out: a JSON file for the results; by default, those of all cases go into
            benchmarks/results/ in the working folder.
        docs: a Markdown file to write from the results.
        results: a JSON file of results, and nothing is measured again; may be repeated
            for a page of several runs.
        json: print the results as one JSON object on stdout; those of several files as
            an array.
    """
    if results and any([case, method, quick, long, out]):
        raise InvalidInputError(
            "`--results` shows what was measured before: leave out `--case`, "
            "`--method`, `--quick`, `--long` and `--out`."
        )
    if quick and long:
        raise InvalidInputError("Choose one of `--quick` and `--long`.")
    for file in (out, docs):
        if file is not None:
            check_writable(file)
    size = "quick" if quick else "long" if long else "full"
    runs = [_read(file) for file in results or []]
    runs = runs or [_measure(case or [], size, method or [], out, in_json=json)]
    if docs is not None:
        plotting.put(docs, _module("_page").page(runs).encode())
        note(f"docs: {docs}")
    _show(runs, in_json=json)
    _conclude(runs)


def _measure(
    case: list[str], size: str, method: list[str], out: Path | None, *, in_json: bool
) -> dict[str, Any]:
    """What is measured now; written where one says, or where a whole run belongs."""
    module = _module("_report")
    measurements = module.report(
        module.chosen(case, size),
        size,
        method,
        told=note_step,
        kept=lambda rows: _keep(rows, out),
        cut=lambda rows: _show([rows], in_json=in_json),
    )
    is_whole = not (case or method or size == "quick")
    file = out or (module.file_of(measurements) if is_whole else None)
    _keep(measurements, file)
    if file is not None:
        note(f"results: {file}")
    return measurements


def _keep(measurements: dict[str, Any], file: Path | None) -> None:
    """Writes results, if one says where."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json_module.dumps(finite(measurements), indent=1, ensure_ascii=False)
    plotting.put(file, f"{text}\n".encode())


def _show(runs: list[dict[str, Any]], *, in_json: bool) -> None:
    if in_json:
        print_json(runs[0] if len(runs) == 1 else runs)
        return
    for measurements in runs:
        _module("_table").show(measurements)


def _module(name: str) -> ModuleType:
    """A module of the folder of benchmarks.

    Raises:
        InputFileError: if there is no such folder.
    """
    folder = str(holder(FOLDER))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(f"{FOLDER}.{name}")


def _read(file: Path) -> dict[str, Any]:
    """The results of an earlier run.

    Raises:
        InputFileError: if the file holds none.
    """
    try:
        measurements = json_value(read_text(file))
    except ValueError as error:
        raise InputFileError(
            f"Cannot read results from `{file}`: {error}; measure anew, by `meanfield "
            "bench --out FILE`."
        ) from error
    if not isinstance(measurements, dict) or "rows" not in measurements:
        raise InputFileError(
            f"`{file}` holds no results of `meanfield bench`; write some by `meanfield "
            "bench --out FILE`."
        )
    return measurements


def _conclude(runs: list[dict[str, Any]]) -> None:
    """Raises if something of ours did not run; what peers cannot do is in the table.

    Raises:
        VerificationFailed: naming the first.
    """
    ours_failed = _module("_report").ours_failed
    failures = [row for measurements in runs for row in ours_failed(measurements)]
    if failures:
        raise VerificationFailed(
            f"{len(failures)} of ours could not be measured; the first is {failures[0]}"
        )
