"""A process that measures one trial: `python -m benchmarks._worker TRIAL RESULT`.

The trial is JSON; the result is written to a file, since some packages print.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

from ._measure import measured
from ._trial import Job, Trial


def maker(trial: Trial) -> Callable[[Trial], Job]:
    """The function that makes the job of a trial; its file loads what it needs."""
    file, name = trial.maker.split(":")
    return getattr(importlib.import_module(f"benchmarks.methods.{file}"), name)


def main(text: str, result: str) -> None:
    """Measures, and writes what was found."""
    trial = Trial(**json.loads(text))
    found = measured(maker(trial)(trial), trial.scale)
    Path(result).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
