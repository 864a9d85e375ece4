"""Measurement of one trial, inside a worker process."""

import importlib
import json
from collections.abc import Callable
from typing import Any

from ._measure import measure_job
from ._trial import Job, Trial


def measure_trial(trial: Trial) -> dict[str, Any]:
    """Measures a trial after importing only the packages that its method needs.

    Raises:
        TypeError: if a result cannot be written as JSON, such as a NumPy integer.
    """
    entries = measure_job(_load_maker(trial)(trial), trial.scale)
    return json.loads(json.dumps(entries))


def _load_maker(trial: Trial) -> Callable[[Trial], Job]:
    """The function that makes the job of a trial."""
    file, name = trial.maker.split(":")
    return getattr(importlib.import_module(f"benchmarks.methods.{file}"), name)
