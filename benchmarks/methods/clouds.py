"""Small clouds by `meanfield`: as many abreast as it thinks best, and one."""

from typing import Any

import jax
import numpy as np

import meanfield
from benchmarks._clouds import end_facts, starts
from benchmarks._trial import Job, Trial
from meanfield.dynamics import stacked
from meanfield.flows import Trajectory, adaptive, ensemble, fixed
from meanfield.measures import Points

STAGES = {"tsit5": 6, "heun": 2}  # velocities of a step


def together(trial: Trial) -> Job:
    """Side by side, as many as `ensemble` takes unless told otherwise."""
    return _moved(trial, None)


def alone(trial: Trial) -> Job:
    """One at a time on each core."""
    return _moved(trial, 1)


def _moved(trial: Trial, together: int | None) -> Job:
    settings, identity = trial.settings, np.eye(trial.d)
    attention = meanfield.attentions[settings["attention"]](
        settings["A"] * identity, identity, settings["V"] * identity
    )
    clouds = stacked([Points.uniform(x) for x in starts(trial)])
    steps = settings["steps"]
    solver = "tsit5" if steps is None else "heun"
    stepping = (
        adaptive(rtol=settings["rtol"]) if steps is None else fixed(1 / steps, solver)
    )

    def run() -> Trajectory:
        ends = ensemble(
            attention, clouds, [0.0, 1.0], stepping=stepping, together=together
        )
        return jax.block_until_ready(ends)

    def facts(ends: Trajectory) -> dict[str, Any]:
        tries = np.asarray(ends.n_accepted + ends.n_rejected)
        steps, most = int(tries.sum()), int(tries.max())
        costs = end_facts(trial, np.asarray(ends.last), STAGES[solver] * steps)
        return {**costs, "steps": steps, "most_steps": most}

    return Job(run, facts)
