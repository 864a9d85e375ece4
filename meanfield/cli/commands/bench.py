"""`meanfield bench`: benchmarks against other libraries."""

import importlib
import json as json_module
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from meanfield import plotting
from meanfield._folders import root_of
from meanfield._reading import json_value, read_text
from meanfield._writing import check_writable
from meanfield.cli.terminal._output import finite, note, note_step, print_json
from meanfield.errors import InputFileError, InvalidInputError, VerificationError

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
    """Measure time, memory and error against other libraries.

    For example:
        meanfield bench --quick --case gaussians
        meanfield bench --quick --case gaussians --method 'ours*' --out ours.json

    Each row is measured in its own process; packages that are not installed are skipped
    with a note. With --out each row is saved when it is measured; an interrupt prints
    the rows so far. The exit code is 6 if a measurement of this library fails.

    Args:
        case: case to measure; all by default; may be repeated.
        method: method to measure, by name or pattern such as 'ours*'; all by default;
            may be repeated.
        quick: small sizes, as a smoke test (flag).
        long: additional flows of a million tokens (flag).
        out: JSON file for the results; by default a full run writes one in
            benchmarks/results/ of the working folder.
        docs: Markdown file to write from the results.
        results: JSON file of earlier results to show instead of measuring; may be
            repeated.
        json: results as a JSON object on stdout, or an array for several files (flag).
    """
    if results and any([case, method, quick, long, out]):
        raise InvalidInputError(
            "`--results` only shows earlier results: leave out `--case`, "
            "`--method`, `--quick`, `--long` and `--out`."
        )
    if quick and long:
        raise InvalidInputError("Choose one of `--quick` and `--long`.")
    for file in (out, docs):
        if file is not None:
            check_writable(file)
    size = "quick" if quick else "long" if long else "full"
    runs = [_read(file) for file in results or []]
    runs = runs or [_measure(case or [], size, method or [], out, json=json)]
    if docs is not None:
        plotting.write_file(docs, _module("_page").page(runs).encode())
        note(f"docs: {docs}")
    _show(runs, json=json)
    _check_failures(runs)


def _measure(
    case: list[str], size: str, method: list[str], out: Path | None, *, json: bool
) -> dict[str, Any]:
    """Writes the results to `out`, or to `benchmarks/results/` for a full run."""
    module = _module("_report")
    measurements = module.report(
        module.select_cases(case, size),
        size,
        method,
        on_trial=note_step,
        on_row=lambda rows: _keep(rows, out),
        on_interrupt=lambda rows: _show([rows], json=json),
    )
    is_whole = not (case or method or size == "quick")
    file = out or (module.file_of(measurements) if is_whole else None)
    _keep(measurements, file)
    if file is not None:
        note(f"results: {file}")
    return measurements


def _keep(measurements: dict[str, Any], file: Path | None) -> None:
    """Writes the results to `file`, unless it is `None`."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json_module.dumps(finite(measurements), indent=1, ensure_ascii=False)
    plotting.write_file(file, f"{text}\n".encode())


def _show(runs: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        print_json(runs[0] if len(runs) == 1 else runs)
        return
    for measurements in runs:
        _module("_table").show(measurements)


def _module(name: str) -> ModuleType:
    """Imports a module of the benchmarks folder.

    Raises:
        InputFileError: if there is no such folder.
    """
    folder = str(root_of(FOLDER))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(f"{FOLDER}.{name}")


def _read(file: Path) -> dict[str, Any]:
    """The results of an earlier run.

    Raises:
        InputFileError: if the file contains no results.
    """
    try:
        measurements = json_value(read_text(file))
    except ValueError as error:
        raise InputFileError(
            f"Cannot read results from `{file}`: {error}; measure again with "
            "`meanfield bench --out FILE`."
        ) from error
    if not isinstance(measurements, dict) or "rows" not in measurements:
        raise InputFileError(
            f"`{file}` holds no results of `meanfield bench`; write some with "
            "`meanfield bench --out FILE`."
        )
    return measurements


def _check_failures(runs: list[dict[str, Any]]) -> None:
    """Raises if a method of this library failed; methods of other libraries may fail.

    Raises:
        VerificationError: naming the first failure.
    """
    ours_failed = _module("_report").ours_failed
    failures = [row for measurements in runs for row in ours_failed(measurements)]
    if failures:
        raise VerificationError(
            f"{len(failures)} measurements of this library failed; the first is "
            f"{failures[0]}"
        )
