"""Whole runs of the command line, each in its own process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks._trial import Job, Trial
from benchmarks._usage import CHILDREN

MAIN = "from meanfield.cli import main; main()"
IMPORTS = "import jax, equinox, diffrax"
TOLD = ("ending", "compile_seconds", "seconds")


def again(trial: Trial) -> Job:
    """A run with a warm compilation cache."""
    cache = tempfile.TemporaryDirectory()
    run = lambda: _simulated(trial, cache.name)
    return Job(run, _told, usage=CHILDREN)


def anew(trial: Trial) -> Job:
    """A run with an empty compilation cache."""
    return Job(
        _in_empty_cache(lambda cache: _simulated(trial, cache)), _told, 0, 50, CHILDREN
    )


def stored(trial: Trial) -> Job:
    """A single run with an empty compilation cache that stores its frames."""

    def run(cache: str) -> dict[str, Any]:
        return _simulated(trial, cache, "--out", str(Path(cache) / "run.zarr"))

    return Job(_in_empty_cache(run), _told, 0, 1, CHILDREN)


def imports(trial: Trial) -> Job:
    """A process that only imports, a lower bound of the time of a run."""
    del trial
    run = lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return Job(run, lambda _: {}, usage=CHILDREN)


def _in_empty_cache(run: Callable[[str], dict[str, Any]]) -> Callable[[], dict]:
    def whole() -> dict[str, Any]:
        cache = tempfile.mkdtemp()
        try:
            return run(cache)
        finally:
            shutil.rmtree(cache)

    return whole


def _simulated(trial: Trial, cache: str, *more: str) -> dict[str, Any]:
    """The JSON object that `simulate --json` prints."""
    options = {"n": trial.n, "d": trial.d, **trial.settings["options"]}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    process = subprocess.run(
        [sys.executable, "-c", MAIN, "simulate", *arguments, *more, "--json"],
        env={**os.environ, "XDG_CACHE_HOME": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def _told(report: Mapping[str, Any]) -> dict[str, Any]:
    ending, compiling, integrating = (report[name] for name in TOLD)
    return {
        "ending": ending,
        "compile_seconds": compiling,
        "integrating_seconds": round(integrating, 3),
        "steps": report["n_accepted"] + report["n_rejected"],
    }
