"""Sinkhorn's potentials of two large clouds by `meanfield.sums`."""

from typing import Any

import jax
import numpy as np

from benchmarks._problems import tokens
from benchmarks._trial import Job, Trial
from meanfield import sums
from meanfield.measures import Cells

LOOKS = 512  # rows or columns that are farthest out, and the same number of others
AT_ONCE = 16  # rows or columns in a block


def in_cells(trial: Trial) -> Job:
    """Potentials between the tokens of the trial and the same number of others."""
    epsilon = trial.settings["epsilon"]
    x = tokens(trial)
    y = np.random.default_rng(3).standard_normal(x.shape)
    how = Cells(trial.settings["tolerance"])

    def run() -> sums.Potentials:
        found = sums.sinkhorn(x / epsilon, y, reduction=how)
        return jax.block_until_ready(found)

    def facts(found: sums.Potentials) -> dict[str, Any]:
        f, g = map(np.asarray, (found.query_potential, found.key_potential))
        errors = [_errors(x, y, f, g, epsilon), _errors(y, x, g, f, epsilon)]
        return {
            "error": float(max(np.mean(each) for each in errors)),
            "worst": float(np.max(errors)),
            "residual": float(found.residual),
        }

    return Job(run, facts, warmups=0, most=1)


def _errors(
    x: np.ndarray, y: np.ndarray, f: np.ndarray, g: np.ndarray, epsilon: float
) -> np.ndarray:
    """Relative errors of sampled row sums, for weights 1/n."""
    far = np.argsort(-np.sum(x**2, axis=1))[:LOOKS]
    others = np.random.default_rng(4).choice(len(x), LOOKS, replace=False)
    at = np.concatenate([far, others])
    rows = np.split(at, len(at) // AT_ONCE)
    found = [np.exp(x[i] @ y.T / epsilon + f[i, None] + g).mean(axis=1) for i in rows]
    return np.abs(np.concatenate(found) - 1)
