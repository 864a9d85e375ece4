"""Small flows of the case `latency`, and the job that times one in a fresh process."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._trial import Job, Trial

TIMES = np.linspace(0, 0.1, 11)
MEAN, VARIANCE = 0.1, 0.5  # of each coordinate of the Gaussian
SCALE = 0.3  # standard deviation of the entries of a score matrix


def score_matrix(d: int, seed: int = 0) -> np.ndarray:
    """Random score matrix $A$; heads and layers have different seeds."""
    return SCALE * np.random.default_rng(seed).standard_normal((d, d))


def first_run(
    trial: Trial, run: Callable[[Trial], Any], facts: Callable[[Any], Mapping[str, Any]]
) -> Job:
    """A job that runs only once, after runs in the `earlier` dimensions, if any.

    The first run would otherwise include the start of JAX's backend, which does not
    depend on the method.
    """
    jax.block_until_ready(jnp.zeros(1))
    for d in trial.settings.get("earlier", ()):
        run(replace(trial, d=d))
    return Job(lambda: run(trial), facts, warmups=0, max_repeats=1)
