"""Complete runs of the command line, each in its own process."""

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
REPORT_KEYS = ("ending", "compile_seconds", "seconds")


def warm_cache(trial: Trial) -> Job:
    """A run whose programs are already in the compilation cache."""
    cache = tempfile.TemporaryDirectory()
    run = lambda: _simulate(trial, cache.name)
    return Job(run, _facts, usage=CHILDREN)


def empty_cache(trial: Trial) -> Job:
    """A run with an empty compilation cache."""
    return Job(
        _with_empty_cache(lambda cache: _simulate(trial, cache)),
        _facts,
        0,
        50,
        CHILDREN,
    )


def stored(trial: Trial) -> Job:
    """A single run that stores its frames, with an empty compilation cache."""

    def run(cache: str) -> dict[str, Any]:
        return _simulate(trial, cache, "--out", str(Path(cache) / "run.zarr"))

    return Job(_with_empty_cache(run), _facts, 0, 1, CHILDREN)


def imports(trial: Trial) -> Job:
    """A process that only imports packages; its time is a lower bound for any run."""
    del trial
    run = lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    return Job(run, lambda _: {}, usage=CHILDREN)


def _with_empty_cache(run: Callable[[str], dict[str, Any]]) -> Callable[[], dict]:
    def run_with_cache() -> dict[str, Any]:
        cache = tempfile.mkdtemp()
        try:
            return run(cache)
        finally:
            shutil.rmtree(cache)

    return run_with_cache


def _simulate(trial: Trial, cache: str, *extra_arguments: str) -> dict[str, Any]:
    """The JSON object that `simulate --json` prints."""
    options = {"n": trial.n, "d": trial.d, **trial.settings["options"]}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            MAIN,
            "simulate",
            *arguments,
            *extra_arguments,
            "--json",
        ],
        env={**os.environ, "XDG_CACHE_HOME": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def _facts(report: Mapping[str, Any]) -> dict[str, Any]:
    ending, compile_seconds, integrating_seconds = (
        report[name] for name in REPORT_KEYS
    )
    return {
        "ending": ending,
        "compile_seconds": compile_seconds,
        "integrating_seconds": round(integrating_seconds, 3),
        "steps": report["n_accepted"] + report["n_rejected"],
    }
