"""Softmax velocities by symbolic matrices of PyKeOps."""

import numpy as np
from pykeops.numpy import LazyTensor

from benchmarks._problems import tokens, velocity_facts
from benchmarks._trial import Job, Trial


def velocity(trial: Trial) -> Job:
    """Softmax velocity by the PyKeOps reduction `sumsoftmaxweight` over the keys."""
    x = tokens(trial)
    queries = np.ascontiguousarray(x[: trial.n_queries] / trial.settings["epsilon"])
    queries = queries.astype(trial.dtype)

    def run() -> np.ndarray:
        keys = LazyTensor(x[None, :, :])
        scores = (LazyTensor(queries[:, None, :]) | keys).sum(-1)
        return scores.sumsoftmaxweight(keys, axis=1)

    return Job(run, lambda velocities: velocity_facts(trial, velocities))
