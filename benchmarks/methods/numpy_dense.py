"""Softmax velocities in NumPy with dense scores."""

import numpy as np

from benchmarks._problems import tokens, velocity_facts
from benchmarks._trial import Job, Trial


def velocity(trial: Trial) -> Job:
    """Softmax velocity in NumPy from the dense matrix of scores."""
    x, epsilon = tokens(trial), trial.settings["epsilon"]
    queries = x[: trial.n_queries]

    def run() -> np.ndarray:
        scores = queries @ x.T
        scores /= epsilon
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        return scores @ x / scores.sum(axis=1, keepdims=True)

    return Job(run, lambda velocities: velocity_facts(trial, velocities))
