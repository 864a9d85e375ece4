"""Small clouds by `meanfield`: in default batches, and one at a time."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._clouds import end_facts, starts
from benchmarks._trial import Job, Trial
from meanfield.dynamics import stack_trees
from meanfield.flows import Trajectory, adaptive, ensemble, fixed
from meanfield.measures import Points

STAGES = {"tsit5": 6, "heun": 2}  # velocities per step


def together(trial: Trial) -> Job:
    """Clouds in batches of the default size of `ensemble`."""
    return _moved(trial, None)


def alone(trial: Trial) -> Job:
    """Clouds one at a time on each core."""
    return _moved(trial, 1)


def _moved(trial: Trial, together: int | None) -> Job:
    settings, identity = trial.settings, np.eye(trial.d)
    attention = meanfield.attentions[settings["attention"]](
        settings["A"] * identity, identity, settings["V"] * identity
    )
    clouds = stack_trees([Points.uniform(x) for x in starts(trial)])
    steps = settings["steps"]
    solver = "tsit5" if steps is None else "heun"
    stepping = (
        adaptive(rtol=settings["rtol"]) if steps is None else fixed(1 / steps, solver)
    )

    def run() -> Trajectory:
        ends = ensemble(
            attention, clouds, [0.0, 1.0], stepping=stepping, batch_size=together
        )
        return jax.block_until_ready(ends)

    def facts(ends: Trajectory) -> dict[str, Any]:
        tries = np.asarray(ends.n_accepted + ends.n_rejected)
        steps, most = int(tries.sum()), int(tries.max())
        costs = end_facts(trial, np.asarray(ends.last), STAGES[solver] * steps)
        return {**costs, "steps": steps, "most_steps": most}

    return Job(run, facts)
