"""What a process of its own does: it measures one trial."""

import importlib
import json
from collections.abc import Callable
from typing import Any

from ._measure import measured
from ._trial import Job, Trial


def measurement(trial: Trial) -> dict[str, Any]:
    """What was measured; the file of a trial's method loads what it needs.

    Raises:
        TypeError: here, for one trial alone, if JSON cannot hold it: NumPy's integers.
    """
    figures = measured(_maker(trial)(trial), trial.scale)
    return json.loads(json.dumps(figures))


def _maker(trial: Trial) -> Callable[[Trial], Job]:
    """The function that makes the job of a trial."""
    file, name = trial.maker.split(":")
    return getattr(importlib.import_module(f"benchmarks.methods.{file}"), name)
