"""Mutants: one-line mistakes in a copy of the library, each to be caught.

By `verify` (`mutants.toml`), or by tests where no statement covers the line
(`tested.toml`). `python tests/mutation.py` (`make mutants`) tries every mutant against
the statements or tests listed with it, and writes the table of which catches which.
With names of mutants it tries those alone, against all statements, and prints which
fail.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "mutants"
FILES = (FOLDER / "mutants.toml", FOLDER / "tested.toml")
MAIN = "from meanfield.cli import main; main()"
TABLE = ROOT / "docs" / "mutants.md"
CACHE = {  # compilation cache: most mistakes change few programs
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "mutants"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
HEAD = """\
# Which statement catches which mistake

Written by `make mutants`. Each row is one line of the library changed for the worse
(`tests/mutants/mutants.toml`), and statements that `meanfield verify --size quick` then
finds not as they must be. Others may, too; `python tests/mutation.py NAME` tries all.

| mistake | where | caught by |
|---|---|---|
"""
TESTED_HEADING = """
## Mistakes that no statement looks for

Each makes a test fail (`tests/mutants/tested.toml`).

| mistake | where | caught by |
|---|---|---|
"""


@dataclass(frozen=True)
class Mutant:
    """A mistake: `old` occurs exactly once in `file`, and becomes `new`.

    Caught by statements, or by tests: names of pytest, below the folder of tests.
    """

    name: str
    file: str
    old: str
    new: str
    what: str
    caught_by: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def expected(self) -> set[str]:
        """All statements or tests that are listed as catching it."""
        return {*self.caught_by, *self.tests}


def mutants() -> list[Mutant]:
    """All mutants."""
    return [mutant for file in FILES for mutant in _read(file)]


def _read(path: Path) -> list[Mutant]:
    with path.open("rb") as file:
        actual = tomllib.load(file)
    collected = []
    for name, keys in actual.items():
        lists = {key: tuple(keys.pop(key, ())) for key in ("caught_by", "tests")}
        collected.append(Mutant(name, **lists, **keys))
    return collected


def mutated_text(mutant: Mutant) -> str:
    """The text of its file with the mistake in it.

    Raises:
        ValueError: unless the line occurs exactly once.
    """
    text = (ROOT / "meanfield" / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"The mutant `{mutant.name}` finds its line {text.count(mutant.old)} times "
            f"in {mutant.file}; it must stand there once."
        )
    return text.replace(mutant.old, mutant.new)


def write_mutant(mutant: Mutant, folder: Path) -> None:
    """Writes a copy of the library with the mistake into `folder`."""
    copy = folder / "meanfield"
    shutil.copytree(
        ROOT / "meanfield", copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    (copy / mutant.file).write_text(mutated_text(mutant), encoding="utf-8")


def catchers(mutant: Mutant, patterns: tuple[str, ...] = ()) -> list[str]:
    """The statements that fail, or whose controls pass, under the mistake."""
    with tempfile.TemporaryDirectory() as name:
        write_mutant(mutant, Path(name))
        result = subprocess.run(
            [sys.executable, "-c", MAIN, "verify", *patterns, "--json"],
            cwd=name,
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            text=True,
            check=False,
        )
    if not result.stdout:
        raise RuntimeError(
            f"`{mutant.name}` ended with {result.returncode}: {result.stderr}"
        )
    actual = json.loads(result.stdout)["statements"]
    return [row["id"] for row in actual if not row["has_passed"]]


def failing_tests(mutant: Mutant) -> list[str]:
    """The tests listed with the mutant that fail under the mistake."""
    return [test for test in mutant.tests if _fails(mutant, test)]


def _fails(mutant: Mutant, test: str) -> bool:
    with tempfile.TemporaryDirectory() as name:
        write_mutant(mutant, Path(name))
        any_of_them = ["-m", ""]  # slow tests, too
        options = [
            *any_of_them,
            "-xq",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(ROOT),
        ]
        result = subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"{ROOT}/tests/{test}"],
            cwd=name,
            env={**os.environ, "PYTHONPATH": f"{name}{os.pathsep}{ROOT}", **CACHE},
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode not in (
        0,
        1,
    ):  # otherwise no test was found, or pytest failed to start
        raise RuntimeError(f"`{test}` under `{mutant.name}`: {result.stdout[-2000:]}")
    return result.returncode == 1


def main(names: list[str]) -> int:
    """Tries mutants, and prints how many were not caught."""
    return _run_named(names) if names else _run_all()


def _run_named(names: list[str]) -> int:
    by_name = {mutant.name: mutant for mutant in mutants()}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.stderr.write(f"no mutant is called {', '.join(unknown)}\n")
        return 2
    selected = [by_name[name] for name in names]
    actual = _run_in_parallel(
        selected,
        lambda mutant: failing_tests(mutant) if mutant.tests else catchers(mutant),
    )
    return _report(selected, [bool(ids) for ids in actual])


def _run_all() -> int:
    all_mutants = mutants()
    actual = _run_in_parallel(all_mutants, _listed_catchers)
    pairs = list(zip(all_mutants, actual, strict=True))
    statement_rows = [_row(*pair) for pair in pairs if not pair[0].tests]
    test_rows = [_row(*pair) for pair in pairs if pair[0].tests]
    TABLE.write_text(
        "".join([HEAD, *statement_rows, TESTED_HEADING, *test_rows]), encoding="utf-8"
    )
    return _report(
        all_mutants, [bool(ids) and m.expected <= set(ids) for m, ids in pairs]
    )


def _listed_catchers(mutant: Mutant) -> list[str]:
    return failing_tests(mutant) if mutant.tests else catchers(mutant, mutant.caught_by)


def _row(mutant: Mutant, ids: list[str]) -> str:
    return f"| {mutant.what} | `{mutant.file}` | {_format_ids(ids)} |\n"


def _run_in_parallel(
    selected: list[Mutant], attempt: Callable[[Mutant], list[str]]
) -> list[list[str]]:
    def attempt_and_log(mutant: Mutant) -> list[str]:
        actual = attempt(mutant)
        sys.stderr.write(f"{mutant.name}: {', '.join(actual) or 'GOT AWAY'}\n")
        return actual

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(attempt_and_log, selected))


def _report(selected: list[Mutant], error_info: list[bool]) -> int:
    sys.stdout.write(f"{sum(error_info)} of {len(selected)} mutants caught\n")
    misses = [m.name for m, good in zip(selected, error_info, strict=True) if not good]
    sys.stdout.write("".join(f"not as listed: {name}\n" for name in misses))
    return int(bool(misses))


def _format_ids(ids: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in ids)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
