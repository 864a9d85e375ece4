"""What sparse attention is asked of, and what it is: NumPy, in double precision."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._problems import relative_gap, tokens
from ._trial import Trial

SPREAD = 4  # of scores of blocks, times the root of the dimension


def matrix(trial: Trial) -> np.ndarray:
    """That of the sorting network, of so small entries that balancing mixes blocks."""
    blocks = trial.settings["blocks"]
    normals = np.random.default_rng(3).standard_normal((trial.d, blocks))
    return normals * SPREAD * (blocks / trial.n) ** 0.5 / trial.d


def order(trial: Trial) -> np.ndarray:
    """A permutation of the blocks."""
    return np.random.default_rng(4).permutation(trial.settings["blocks"])


def sorting(trial: Trial, blocks: np.ndarray) -> np.ndarray:
    """The balanced matrix, columns and then rows."""
    S = np.exp(blocks.sum(axis=1) @ matrix(trial))
    for _ in range(trial.settings["passes"]):
        S = S / S.sum(axis=0, keepdims=True)
        S = S / S.sum(axis=1, keepdims=True)
    return S


def cut(trial: Trial) -> np.ndarray:
    """The tokens in blocks."""
    return tokens(trial).astype(float).reshape(trial.settings["blocks"], -1, trial.d)


def local(x: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Attention of one block to its places."""
    return softmax(x @ (x + psi).T) @ psi


def softmax(S: np.ndarray) -> np.ndarray:
    """Rows that sum to one."""
    e = np.exp(S - S.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def exact(trial: Trial, name: str, at: Sequence[int]) -> np.ndarray:
    """The velocities of some blocks."""
    blocks = cut(trial)
    flat = blocks.reshape(len(blocks), -1)
    if name == "hard":
        return np.array([local(blocks[i], blocks[order(trial)[i]]) for i in at])
    S = sorting(trial, blocks)
    mixed = lambda i: (S[i] @ flat).reshape(blocks[0].shape)
    if name == "cut":
        psi = mixed(0)
        return np.array([softmax(blocks[i] @ psi.T) @ psi for i in at])
    return np.array([local(blocks[i], mixed(i)) for i in at])


def sparse_facts(trial: Trial, name: str, values: np.ndarray) -> dict[str, Any]:
    """The error, and operations by the model; softmax is of another attention."""
    if name == "softmax":
        return {}
    blocks = trial.settings["blocks"]
    at = sorted({0, blocks // 2, blocks - 1})
    found = np.asarray(values, float).reshape(blocks, -1, trial.d)[at]
    return {"error": relative_gap(found, exact(trial, name, at)), **_costs(trial, name)}


def _costs(trial: Trial, name: str) -> dict[str, float]:
    """Products of queries with keys and values, and of the matrix with blocks."""
    n, d, blocks = trial.n, trial.d, trial.settings["blocks"]
    pairs = n * n // blocks
    mixing = 0 if name == "hard" else 2 * n * d * blocks
    balancing = 0 if name == "hard" else 2 * trial.settings["passes"] * blocks**2
    return {
        "products": pairs * (4 * d + 2) + mixing,
        "exponentials": pairs + balancing,
    }
