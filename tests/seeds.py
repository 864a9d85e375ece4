"""Statements at many seeds: each must hold, and its control fail, at all of them.

`python tests/seeds.py 0:60 RESULTS.jsonl [PATTERN…]` (`make seeds`) measures every
statement, or the matching ones, at these seeds and writes a line for each. Existing
results are not measured again, so that a long campaign can be interrupted. One process
does all of it, so that a statement compiles once for several seeds.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meanfield._programs import fast_compilation, forget_programs
from meanfield.cli.process._session import open_session

BLOCK = 8  # seeds of one statement before the next statement

Row = dict[str, Any]


def rows(
    names: list[str], seeds: range, finished: set[tuple[str, int]]
) -> Iterator[Row]:
    """A row for each statement and seed that is not finished, by blocks of seeds."""
    for begin in range(0, len(seeds), BLOCK):
        for name in names:
            for seed in seeds[begin : begin + BLOCK]:
                if (name, seed) not in finished:
                    yield measurement(name, seed)


def measurement(name: str, seed: int) -> Row:
    """The result of one statement at a seed, and its failures."""
    from meanfield.theorems import verify_statement

    forget_programs()
    start_time = time.process_time()
    outcome = verify_statement(name, "quick", seed)
    row: Row = {"id": name, "seed": seed, "passed": outcome.has_passed}
    failures = [trial for trial in outcome.trials if not trial.has_passed]
    if failures:
        row["wrong"] = [
            f"{trial.role}: {trial.error or trial.checks}" for trial in failures
        ]
    return row | {"cpu": round(time.process_time() - start_time, 2)}


def main(seeds: str, results: str, *patterns: str) -> int:
    """Measures, writes results, and prints the number of failures."""
    os.environ.setdefault("XLA_FLAGS", fast_compilation())
    open_session()
    from meanfield.theorems import select_statements

    first, end = map(int, seeds.split(":"))
    file = Path(results)
    old_lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    old: list[Row] = [json.loads(line) for line in old_lines]
    finished = {(row["id"], row["seed"]) for row in old}
    failures = [row for row in old if not row["passed"]]
    names = [statement.id for statement in select_statements(patterns)]
    with file.open("a", encoding="utf-8") as out:
        for row in rows(names, range(first, end), finished):
            out.write(json.dumps(row) + "\n")
            out.flush()
            failures += [] if row["passed"] else [row]
    for row in failures:
        sys.stdout.write(f"{row['id']} at seed {row['seed']}: {row['wrong']}\n")
    sys.stdout.write(f"{len(failures)} measurements not as they must be\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
