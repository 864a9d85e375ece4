"""Which files one run opens: `python tests/house_rows/walk.py` in a process of its own.

A profiler sees each call of a Python function; one on whose stack an import stands is
no part of the run.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import NamedTuple

COMMAND = ("simulate", "--measure", "gaussian", "--json")
SURROUNDINGS = ("cli/", "spec/")


class Walk(NamedTuple):
    """The files of one run.

    Attributes:
        command: in which a function ran, from first line to last.
        run: those of them between spec and report, thus not of the command line or of
            specs, nor modules at the top of the package that any layer may use.
        imported: modules of the package, all of them.
    """

    command: tuple[str, ...]
    run: tuple[str, ...]
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
    within = [file for file in command if "/" in file]
    run = tuple(file for file in within if not file.startswith(SURROUNDINGS))
    return Walk(command, run, files["imported"])


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _follow(package: Path) -> dict[str, object]:
    """Runs the command under a profiler, and says which files of the package it met."""
    files: set[str] = set()
    start = f"{package}{os.sep}"

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        is_new = event == "call" and file not in files and file.startswith(start)
        if is_new and not _is_importing(frame):
            files.add(file)

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
    places = sorted(Path(file).relative_to(package).as_posix() for file in files)
    return {"command": places, "imported": _imported(package)}


def _imported(package: Path) -> int:
    files = [getattr(module, "__file__", None) for module in sys.modules.values()]
    return len({file for file in files if file and Path(file).is_relative_to(package)})


if __name__ == "__main__":
    met = _follow(Path(sys.argv[1]).resolve() / "meanfield")
    sys.stdout.write("\n" + json.dumps(met) + "\n")
