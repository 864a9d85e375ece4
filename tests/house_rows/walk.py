"""Which files one run opens: `python tests/house_rows/walk.py` in a process of its own.

A profiler sees each call of a Python function; one on whose stack an import stands is
no part of the run.
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
        command: in which a function ran, from first line to last.
        run: those of them between spec and report, thus not of the command line or of
            specs, nor modules at the top of the package that any layer may use.
        returns: folders that the way from a spec to a velocity comes back to, in turn.
            The way is that of the functions between spec and report, each where it is
            called first, until a coupling computes its first velocity. A folder counts
            each time the way enters it again.
        imported: modules of the package, all of them.
    """

    command: tuple[str, ...]
    run: tuple[str, ...]
    returns: tuple[str, ...]
    imported: int


def walk(root: Path) -> Walk:
    """The files that one run of a Gaussian opens, in the package of a checkout.

    Raises:
        CalledProcessError: unless the run ends well.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = subprocess.run(
            [sys.executable, __file__, str(root)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
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
    """The folders of a way that stand on it before, without those just passed."""
    folders = [folder for folder, _ in itertools.groupby(way)]
    return [folder for n, folder in enumerate(folders) if folder in folders[:n]]


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _follow(package: Path) -> dict[str, object]:
    """Runs the command under a profiler, and says which files of the package it met."""
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
