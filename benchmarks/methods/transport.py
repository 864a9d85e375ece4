"""Sinkhorn potentials of two large clouds by `meanfield.sums`."""

from typing import Any

import jax
import numpy as np

from benchmarks._problems import tokens
from benchmarks._trial import Job, Trial
from meanfield import sums
from meanfield.measures import Cells

N_COMPARED = 512  # number of farthest tokens, and of random tokens, that are compared
BLOCK = 16  # number of rows of the plan that are computed at once


def in_cells(trial: Trial) -> Job:
    """Sinkhorn potentials between the trial's tokens and an independent cloud."""
    epsilon = trial.settings["epsilon"]
    x = tokens(trial)
    y = np.random.default_rng(3).standard_normal(x.shape)
    reduction = Cells(trial.settings["tolerance"])

    def run() -> sums.Potentials:
        potentials = sums.sinkhorn(x / epsilon, y, reduction=reduction)
        return jax.block_until_ready(potentials)

    def facts(potentials: sums.Potentials) -> dict[str, Any]:
        f, g = map(np.asarray, (potentials.query_potential, potentials.key_potential))
        errors = [_errors(x, y, f, g, epsilon), _errors(y, x, g, f, epsilon)]
        return {
            "error": float(max(np.mean(part) for part in errors)),
            "worst": float(np.max(errors)),
            "residual": float(potentials.residual),
        }

    return Job(run, facts, warmups=0, max_repeats=1)


def _errors(
    x: np.ndarray, y: np.ndarray, f: np.ndarray, g: np.ndarray, epsilon: float
) -> np.ndarray:
    """Relative errors of the row sums of the plan at sampled rows."""
    far = np.argsort(-np.sum(x**2, axis=1))[:N_COMPARED]
    others = np.random.default_rng(4).choice(len(x), N_COMPARED, replace=False)
    indices = np.concatenate([far, others])
    rows = np.split(indices, len(indices) // BLOCK)
    sums_of_rows = [
        np.exp(x[i] @ y.T / epsilon + f[i, None] + g).mean(axis=1) for i in rows
    ]
    return np.abs(np.concatenate(sums_of_rows) - 1)
