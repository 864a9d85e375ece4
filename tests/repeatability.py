"""Repeatability of every kind of run on a busy machine, byte for byte.

`python tests/repeatability.py --count 50 --busy 4` prints a line of JSON for each kind.
New memory is filled with another byte in each run, so that reads of uninitialised
memory show; busy processes disturb the scheduling of threads.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KINDS = {
    "tokens": "--init moons --d 2 --n 300 --A 2 --V -1 --t 1",
    "many tokens": "--d 2 --n 9000 --A -1 --t 0.2 --frames 3 --rtol 1e-4",
    "interpolated sums": "--d 1 --n 20001 --A -1 --t 0.2 --frames 3 --rtol 1e-4",
    "masked tokens": "--d 2 --n 200 --A 1 --V -1 --mask causal --t 0.5",
    "heads, sinkhorn": "--attention sinkhorn --heads 2 --d 2 --n 60 --V -1 --t 0.3",
    "noisy tokens": "--d 2 --n 100 --A -1 --t 0.5 --noise 0.1",
    "gaussian": "--measure gaussian --A 1 --V 1 --cov 2 --t 10",
    "family": "--measure gaussian --starts grid:8 --A [[1,0.5],[0,-1]] --t 1",
    "density on a line": "--measure grid --A -1 --V 1 --t 0.5 --noise 0.1",
    "density in the plane": "--measure grid --init moons --d 2 --cells 64 --A 2 --V -1 "
    "--t 0.2",
    "down an energy": "--measure grid --d 2 --cells 64 --flow-of keller-segel "
    "--options chi=20 --t 0.1 --frames 3",
}
PATIENCE = 600  # seconds, after which a run hangs


def stored_digest(arguments: str, folder: Path, fill: int) -> str:
    """The digest of a stored run, computed in its own process.

    Raises:
        CalledProcessError: unless the run succeeds.
    """
    path = folder / "run.zarr"
    command = [sys.executable, "-m", "meanfield", "simulate", *arguments.split()]
    subprocess.run(
        [*command, "--out", str(path)],
        env={**os.environ, "MALLOC_PERTURB_": str(fill)},  # read by the C library
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )
    digest = hashlib.sha256()
    for file in sorted((path / "data" / "segments").rglob("*")):
        if file.is_file():
            digest.update(file.relative_to(path).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def count_digests(arguments: str, fills: list[int]) -> dict[str, int]:
    """Counts of digests over repeated runs: one entry if all are equal."""
    counts: dict[str, int] = {}
    for fill in fills:
        with tempfile.TemporaryDirectory() as folder:
            digest = stored_digest(arguments, Path(folder), fill)
        counts[digest] = counts.get(digest, 0) + 1
    return counts


def _compute() -> None:
    while True:
        sum(range(10_000))


def main() -> int:
    """Runs all kinds, and counts runs that differ from the majority of their kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="runs of each kind")
    parser.add_argument("--busy", type=int, default=4, help="processes beside them")
    parser.add_argument("--kind", choices=KINDS, action="append", help="all if none")
    options = parser.parse_args()
    beside = [
        multiprocessing.Process(target=_compute, daemon=True)
        for _ in range(options.busy)
    ]
    for process in beside:
        process.start()
    different = 0
    for kind in options.kind or KINDS:
        start_time = time.perf_counter()
        fills = [(37 * run) % 256 for run in range(options.count)]
        counts = count_digests(KINDS[kind], fills)
        different += options.count - max(counts.values())
        seconds = round(time.perf_counter() - start_time, 1)
        line = {
            "kind": kind,
            "runs": options.count,
            "stored": counts,
            "seconds": seconds,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
