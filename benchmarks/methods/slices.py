"""Velocities of sliced and Sinkhorn attention by `meanfield`."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._problems import tokens
from benchmarks._sliced import matrices, sliced_facts
from benchmarks._trial import Job, Trial
from meanfield.attention import Attention
from meanfield.flows import compiled
from meanfield.measures import Points


def hard(trial: Trial) -> Job:
    """Matched by ranks."""
    return _job(trial, "esp", slices=trial.settings["slices"])


def soft(trial: Trial) -> Job:
    """Sorted softly, rows divided by their sums."""
    options = {name: trial.settings[name] for name in ("slices", "temperature")}
    return _job(trial, "esp-soft", **options)


def sinkhorn(trial: Trial) -> Job:
    """After some half-steps."""
    return _job(trial, "sinkhorn", iterations=trial.settings["l"])


def _job(trial: Trial, name: str, **options: Any) -> Job:
    Q, K = matrices(trial)
    value = np.eye(trial.d, dtype=trial.dtype)
    attention: Attention = meanfield.attentions[name](Q, K, value, **options)
    mu = Points.uniform(tokens(trial))
    velocity = compiled(lambda attention, mu: attention.field(0.0, mu)(mu.tokens))
    run = lambda: np.asarray(jax.block_until_ready(velocity(attention, mu)))
    return Job(run, lambda values: sliced_facts(trial, name, values), most=20)
