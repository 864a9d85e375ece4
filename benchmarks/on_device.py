"""Case `on_device`: sums over tokens on one accelerator, the most important rows first.

As a script, `python -m benchmarks.on_device`, it runs the tests that need a device and
measures all rows in one process, within a number of minutes. Results are written after
each row.
"""

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from . import _derived, _machine
from ._running import error_reason
from ._trial import OURS, Case, Size, Trial
from ._worker import measure_trial

TESTS = ("tests/test_accelerator.py", "tests/test_kernels.py")
TEST_SECONDS = 120
ROW_SECONDS = 20  # no row starts with less time left
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
OTHER_TILES = {  # resident tokens, tokens of the stream, warps; by dimension
    2: ([128, 16, 4], [128, 8, 4], [256, 16, 4]),
    8: ([128, 8, 4], [128, 4, 4], [256, 8, 4]),
    64: ([64, 64, 4], [128, 32, 4], [64, 16, 4]),
}
# Multiply-adds in each cycle of a multiprocessor in single and double precision, by
# compute capability. There are 16 powers of two in single precision; one in double
# precision takes 15 operations.
MULTIPLY_ADDS = {"8.0": (64, 32), "9.0": (128, 64), "10.0": (128, 64)}
STEPS_OF_EXP2 = 15


class Sizes(NamedTuple):
    """Numbers of tokens and of members."""

    n: int
    n_clouds: int
    n_potentials: int
    half_steps: int
    n_cells: int
    n_gaussians: int
    n_flow: int


QUICK = Sizes(96, 3, 70, 4, 400, 9, 20)
FULL = Sizes(102_400, 4096, 50_000, 100, 1_000_000, 10_000, 3000)


def _trials(size: Size) -> list[Trial]:
    sizes = QUICK if size == "quick" else FULL
    return [*_velocities(sizes), *_others(sizes), *_tiles(sizes)]


def _trial(method: str, maker: str, law: tuple[str, int, int], **options: Any) -> Trial:
    dtype, n, d = law
    names = {key: options.pop(key) for key in ("problem", "package") if key in options}
    settings = {"epsilon": 1.0 if d < 64 else d**0.5, **options}
    package = names.pop("package", OURS)
    return Trial(
        "on_device", method, maker, package, dtype, n, d, settings=settings, **names
    )


def _velocities(sizes: Sizes) -> Iterator[Trial]:
    for dtype, d in (("float32", 2), ("float32", 8), ("float32", 64), ("float64", 2)):
        law = dtype, sizes.n, d
        yield _trial("ours", "on_device:velocity", law)
        yield _trial("ours, gradient", "on_device:gradient", law)
        # In double precision torch stores all scores.
        if dtype == "float32":
            yield _trial("torch SDPA", "torch_on_device:velocity", law, package="torch")
        yield _trial("ours, XLA", "on_device:velocity", law, block=sizes.n // 25 + 1)


def _others(sizes: Sizes) -> Iterator[Trial]:
    clouds = {"problem": f"{sizes.n_clouds} clouds", "clouds": sizes.n_clouds}
    law = "float32", 64, 8
    yield _trial("ours", "on_device:clouds", law, **clouds)
    yield _trial("JAX, dense", "on_device:dense_clouds", law, package="jax", **clouds)
    law = "float32", sizes.n_potentials, 64
    half_steps = {"half_steps": sizes.half_steps, "problem": "Sinkhorn half-steps"}
    yield _trial("ours", "on_device:sinkhorn", law, **half_steps)
    law = "float64", sizes.n_cells, 3
    yield _trial(
        "ours, cells", "cells:planned_velocity", law, problem="cells", tolerance=1e-6
    )
    for maker, n in (("flow", sizes.n_flow), ("gaussians", sizes.n_gaussians)):
        options = {"problem": maker, "starts": f"random:{n}", "rtol": 1e-6}
        for where in ("device", "host"):
            law = "float64", n, 2
            yield _trial(where, f"on_device:{maker}", law, where=where, **options)


def _tiles(sizes: Sizes) -> Iterator[Trial]:
    for dtype, d in (("float32", 2), ("float32", 8), ("float32", 64), ("float64", 2)):
        law = dtype, sizes.n, d
        for tile in (None, *OTHER_TILES[d]):
            method = f"tile {'default' if tile is None else tile}"
            yield _trial(method, "on_device:tile", law, problem="one kernel", tile=tile)


CASE = Case(
    description=(
        "Work on one accelerator, without transfers: softmax velocities of `n` "
        "standard normal tokens (`ε = 1`, `√d` for `d = 64`) and their gradients; "
        "velocities of many clouds; Sinkhorn half-steps; a velocity by cells; a flow, "
        "and an ensemble of Gaussians, on the device and on its host; and the kernel "
        "of a velocity with several tiles. The floor is that of the processor's "
        "multiply-adds and powers of two at its highest clock, not a measured rate. "
        "All rows are measured in one process."
    ),
    trials=_trials,
)


def main(arguments: list[str] | None = None) -> Path:
    """Measures the rows within the time given, and returns the file of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.0, help="time for all rows")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no tests")
    parser.add_argument("--out", type=Path, help="file of the results")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    # JAX would otherwise leave no memory to torch and to the tests.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    report = _start_report("quick" if options.quick else "full")
    out = options.out or _file_of(report)
    report["tests"] = "not run" if options.quick else _run_tests()
    rows: list[dict[str, Any]] = []
    for trial in _trials(report["size"]):
        rows.append(_measure(trial, deadline))
        report["rows"] = _derived.with_ratios(rows, report["peaks"])
        out.write_text(json.dumps(report, indent=1) + "\n")
        sys.stdout.write(f"{_line(report['rows'][-1])}\n")
        sys.stdout.flush()
    return out


def _start_report(size: Size) -> dict[str, Any]:
    """A report without rows, in the format of `meanfield bench`."""
    where = _machine.device()
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "size": size,
        "machine": _machine.describe(where),
        "peaks": _peaks(where),
        "cases": {"on_device": CASE.description},
        "rows": [],
        "growth": [],
    }


def _peaks(where: str) -> _derived.Peaks:
    """Operations per second of a CUDA device at its highest clock; none of others."""
    query = ["--query-gpu=compute_cap,clocks.max.sm", "--format=csv,noheader,nounits"]
    if where == "cpu" or shutil.which("nvidia-smi") is None:
        return {"products": {}, "exponentials": {}}
    answer = subprocess.run(
        ["nvidia-smi", *query], capture_output=True, text=True, check=True
    )
    capability, clock = answer.stdout.splitlines()[0].split(", ")
    cycles = 1e6 * float(clock) * jax.devices()[0].core_count
    rates = dict(
        zip(
            ("float32", "float64"), MULTIPLY_ADDS.get(capability, (128, 2)), strict=True
        )
    )
    powers = {"float32": 16, "float64": rates["float64"] / STEPS_OF_EXP2}
    return {
        "products": {dtype: 2 * cycles * n for dtype, n in rates.items()},
        "exponentials": {dtype: cycles * n for dtype, n in powers.items()},
    }


def _file_of(report: dict[str, Any]) -> Path:
    name = re.sub(r"[^a-z0-9]+", "-", report["machine"]["device"].lower())
    return RESULTS / f"{report['date']}-on-device-{name}.json"


def _run_tests() -> str:
    """The last lines of the tests that need a device, which run in another process."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *TESTS]
    try:
        process = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"took more than {TEST_SECONDS} s"
    return (process.stdout + process.stderr)[-2000:]


def _measure(trial: Trial, deadline: float) -> dict[str, Any]:
    """The row of a trial, which is not measured if little time is left."""
    row = {**trial.as_json(), "scaled": False, "status": "skipped"}
    if time.monotonic() > deadline - ROW_SECONDS:
        return {**row, "reason": "no time left"}
    if _machine.version(trial.package) is None:
        return {**row, "reason": f"{trial.package}: not installed"}
    try:
        return {**row, "status": "measured", **measure_trial(trial)}
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return {**row, "status": "failed", "reason": error_reason(error)}


def _line(row: dict[str, Any]) -> str:
    label = Trial(**{key: row[key] for key in Trial.__dataclass_fields__}).label
    if row["status"] != "measured":
        return f"{label}: {row['reason']}"
    share = row["floor_share"]
    limit = "" if share is None else f", {share:.0%} of the limit"
    return f"{label}: {1e3 * row['seconds']:.3g} ms{limit}, error {row.get('error')}"


if __name__ == "__main__":
    main()
