"""Problems and reference values of sliced attention, in NumPy."""

from typing import Any

import numpy as np

from ._problems import relative_gap, tokens
from ._trial import Trial

PAPER, MANY, BACK = "as the paper", "random slices", "forward and backward"


def matrices(trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    r"""Random `Q` and `K`, scaled so that queries and keys have order-one entries."""
    d = trial.d
    Q, K = np.random.default_rng(2).standard_normal((2, d, d)) / np.sqrt(d)
    return Q.astype(trial.dtype), K.astype(trial.dtype)


def match_by_ranks(
    x: np.ndarray, Q: np.ndarray, K: np.ndarray, slices: str
) -> np.ndarray:
    """For each query, the token whose key has the same rank, averaged over slices."""
    theta = slice_directions(slices, len(Q)).astype(x.dtype)
    queries, keys = x @ (theta @ Q).T, x @ (theta @ K).T
    sums = np.zeros_like(x)
    for line in range(len(theta)):
        sums[np.argsort(queries[:, line])] += x[np.argsort(keys[:, line])]
    return sums / len(theta)


def slice_directions(slices: str, k: int) -> np.ndarray:
    """Unit vectors of the slices, as in the library."""
    if slices == "axis":
        return np.eye(k)
    count = int(slices.removeprefix("random:"))
    rows = np.random.default_rng(0).normal(size=(count, k))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sliced_facts(trial: Trial, name: str, values: np.ndarray) -> dict[str, Any]:
    """Error of velocities of hard sliced attention; empty for other attentions."""
    if name != "esp":
        return {}
    x, (Q, K) = tokens(trial).astype(float), (M.astype(float) for M in matrices(trial))
    exact = match_by_ranks(x, Q, K, trial.settings["slices"])
    return {"error": relative_gap(np.asarray(values, float), exact)}
