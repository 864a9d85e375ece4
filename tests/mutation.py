"""Mutants: one-line mistakes in a copy of the library, each to be noticed by `verify`.

`python tests/mutation.py` tries every mutant against every statement and writes the
table of which statement catches which; `make mutants` does that.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MUTANTS = ROOT / "tests" / "mutants" / "mutants.toml"
MAIN = "from meanfield.cli import main; main()"
TABLE = ROOT / "docs" / "mutants.md"
HEAD = """\
# Which statement catches which mistake

Written by `make mutants`. Each row is one line of the library changed for the worse
(`tests/mutants/mutants.toml`), and the statements that `meanfield verify --size quick`
then finds not as they must be.

| mistake | where | caught by |
|---|---|---|
"""


@dataclass(frozen=True)
class Mutant:
    """A mistake: `old` occurs exactly once in `file`, and becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    what: str
    caught_by: tuple[str, ...] = ()


def mutants() -> list[Mutant]:
    """All of them."""
    with MUTANTS.open("rb") as file:
        found = tomllib.load(file)
    made = []
    for name, keys in found.items():
        caught = tuple(keys.pop("caught_by", ()))
        made.append(Mutant(name, caught_by=caught, **keys))
    return made


def planted(mutant: Mutant, folder: Path) -> None:
    """A copy of the library in `folder`, with the mistake in it."""
    copy = folder / "meanfield"
    shutil.copytree(
        ROOT / "meanfield", copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    target = copy / mutant.file
    text = target.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"The mutant `{mutant.name}` finds its line {text.count(mutant.old)} times "
            f"in {mutant.file}; it must stand there once."
        )
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def catchers(mutant: Mutant, patterns: tuple[str, ...] = ()) -> list[str]:
    """The statements that do not come out as they must under the mistake."""
    with tempfile.TemporaryDirectory() as name:
        planted(mutant, Path(name))
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "verify", *patterns, "--json"],
            cwd=name,
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.stdout:
        raise RuntimeError(
            f"`{mutant.name}` ended with {done.returncode}: {done.stderr}"
        )
    found = json.loads(done.stdout)["statements"]
    return [each["id"] for each in found if not each["passed"]]


def main() -> int:
    """Tries all, writes the table, and tells how many got away."""
    every = mutants()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(_tried, every))
    rows = [
        f"| {m.what} | `{m.file}` | {_listed(ids)} |"
        for m, ids in zip(every, found, strict=True)
    ]
    TABLE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    missed = [m.name for m, ids in zip(every, found, strict=True) if not ids]
    sys.stdout.write(f"{len(every) - len(missed)} of {len(every)} mutants caught\n")
    sys.stdout.write("".join(f"got away: {name}\n" for name in missed))
    return bool(missed)


def _tried(mutant: Mutant) -> list[str]:
    found = catchers(mutant)
    sys.stderr.write(f"{mutant.name}: {len(found)} statements\n")
    return found


def _listed(ids: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in ids[:4])
    return shown + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")


if __name__ == "__main__":
    sys.exit(main())
