"""Flows of small clouds by `meanfield`, in batches or one at a time."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._clouds import end_facts, initial_states
from benchmarks._trial import Job, Trial
from meanfield.dynamics import stack_trees
from meanfield.flows import Trajectory, adaptive, ensemble, fixed
from meanfield.measures import Points

STAGES = {"tsit5": 6, "heun": 2}  # number of velocity evaluations per step


def batched(trial: Trial) -> Job:
    """Integrates the clouds in batches of the default size of `ensemble`."""
    return _ensemble_job(trial, None)


def one_at_a_time(trial: Trial) -> Job:
    """Integrates the clouds in batches of size one, one batch per core."""
    return _ensemble_job(trial, 1)


def _ensemble_job(trial: Trial, batch_size: int | None) -> Job:
    settings, identity = trial.settings, np.eye(trial.d)
    attention = meanfield.attentions[settings["attention"]](
        settings["A"] * identity, identity, settings["V"] * identity
    )
    clouds = stack_trees([Points.uniform(x) for x in initial_states(trial)])
    steps = settings["steps"]
    solver = "tsit5" if steps is None else "heun"
    stepping = (
        adaptive(rtol=settings["rtol"]) if steps is None else fixed(1 / steps, solver)
    )

    def run() -> Trajectory:
        ends = ensemble(
            attention, clouds, [0.0, 1.0], stepping=stepping, batch_size=batch_size
        )
        return jax.block_until_ready(ends)

    def facts(ends: Trajectory) -> dict[str, Any]:
        n_steps = np.asarray(ends.n_accepted + ends.n_rejected)
        steps, most_steps = int(n_steps.sum()), int(n_steps.max())
        costs = end_facts(trial, np.asarray(ends.last), STAGES[solver] * steps)
        return {**costs, "steps": steps, "most_steps": most_steps}

    return Job(run, facts)
