"""The files that one run opens: `python tests/house_rows/walk.py`, as its own process.

A profiler sees each call of a Python function; calls during an import do not count.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

COMMAND = ("simulate", "--measure", "gaussian", "--json")
SURROUNDINGS = ("cli/", "spec/")
VELOCITIES = ("affine", "barycentre")
"""Methods of couplings that compute one."""


class Walk(NamedTuple):
    """The files of one run.

    Attributes:
        command: files in which a function ran, in order.
        run: those between spec and report, without the command line, specs and the
            modules at the top of the package, which any layer may use.
        returns: folders that the call path from spec to velocity returns to, in turn.
            The path lists the functions between spec and report, each where it is
            called first, until a coupling computes its first velocity. A folder counts
            each time the path enters it again.
        n_imported: number of imported modules of the package.
    """

    command: tuple[str, ...]
    run: tuple[str, ...]
    returns: tuple[str, ...]
    n_imported: int


def walk(root: Path) -> Walk:
    """The files that one Gaussian run opens, in the package of a checkout.

    Raises:
        CalledProcessError: unless the run succeeds.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = subprocess.run(
            [sys.executable, __file__, str(root)],
            cwd=folder,
            # A program from the cache would run without calling its functions.
            env={**os.environ, "PYTHONPATH": str(root), "XDG_CACHE_HOME": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    files = json.loads(report.stdout.splitlines()[-1])
    command = tuple(files["command"])
    run = tuple(file for file in command if _is_between(file))
    way = [str(Path(file).parent) for file in files["way"] if _is_between(file)]
    return Walk(command, run, tuple(returns(way)), files["imported"])


def _is_between(file: str) -> bool:
    return "/" in file and not file.startswith(SURROUNDINGS)


def returns(way: list[str]) -> list[str]:
    """The folders that a path returns to, without immediate repetitions."""
    folders = [folder for folder, _ in itertools.groupby(way)]
    return [folder for n, folder in enumerate(folders) if folder in folders[:n]]


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _follow(package: Path) -> dict[str, object]:
    """Runs the command under a profiler, and records the files of the package."""
    codes: dict[CodeType, None] = {}
    start = f"{package}{os.sep}"

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        is_new = code not in codes and code.co_filename.startswith(start)
        if event == "call" and is_new and not _is_importing(frame):
            codes[code] = None

    from meanfield.__main__ import main

    sys.argv = ["meanfield", *COMMAND]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    places = [Path(code.co_filename).relative_to(package).as_posix() for code in codes]
    end = next(n for n, code in enumerate(codes) if code.co_name in VELOCITIES)
    return {
        "command": sorted(set(places)),
        "way": places[: end + 1],
        "imported": _count_imported_files(package),
    }


def _count_imported_files(package: Path) -> int:
    files = [getattr(module, "__file__", None) for module in sys.modules.values()]
    return len({file for file in files if file and Path(file).is_relative_to(package)})


if __name__ == "__main__":
    report = _follow(Path(sys.argv[1]).resolve() / "meanfield")
    sys.stdout.write("\n" + json.dumps(report) + "\n")
