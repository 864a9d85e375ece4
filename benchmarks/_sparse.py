"""Problems and reference values of sparse attention, in NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._problems import relative_gap, tokens
from ._trial import Trial

SCORE_SCALE = 4  # standard deviation of the scores of blocks, multiplied by √d


def sorting_weights(trial: Trial) -> np.ndarray:
    """Weights of the sorting network, so small that it mixes several blocks."""
    blocks = trial.settings["blocks"]
    normals = np.random.default_rng(3).standard_normal((trial.d, blocks))
    return normals * SCORE_SCALE * (blocks / trial.n) ** 0.5 / trial.d


def block_order(trial: Trial) -> np.ndarray:
    """A permutation of the blocks."""
    return np.random.default_rng(4).permutation(trial.settings["blocks"])


def balanced_matrix(trial: Trial, blocks: np.ndarray) -> np.ndarray:
    """The sorting matrix; each pass normalises first its columns, then its rows."""
    S = np.exp(blocks.sum(axis=1) @ sorting_weights(trial))
    for _ in range(trial.settings["passes"]):
        S = S / S.sum(axis=0, keepdims=True)
        S = S / S.sum(axis=1, keepdims=True)
    return S


def cut_into_blocks(trial: Trial) -> np.ndarray:
    """The tokens, cut into blocks."""
    return tokens(trial).astype(float).reshape(trial.settings["blocks"], -1, trial.d)


def block_attention(x: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Attention of a block of tokens `x` to the sorted block `psi`."""
    return softmax(x @ (x + psi).T) @ psi


def softmax(S: np.ndarray) -> np.ndarray:
    """Softmax of the rows."""
    e = np.exp(S - S.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def reference_velocities(trial: Trial, name: str, indices: Sequence[int]) -> np.ndarray:
    """Velocities of the tokens in some blocks, by the method `name`."""
    blocks = cut_into_blocks(trial)
    flat = blocks.reshape(len(blocks), -1)
    if name == "hard":
        order = block_order(trial)
        return np.array([block_attention(blocks[i], blocks[order[i]]) for i in indices])
    S = balanced_matrix(trial, blocks)
    mixed = lambda i: (S[i] @ flat).reshape(blocks[0].shape)
    if name == "cut":
        psi = mixed(0)
        return np.array([softmax(blocks[i] @ psi.T) @ psi for i in indices])
    return np.array([block_attention(blocks[i], mixed(i)) for i in indices])


def sparse_facts(trial: Trial, name: str, values: np.ndarray) -> dict[str, Any]:
    """Error and number of operations of the velocities; empty for softmax."""
    if name == "softmax":
        return {}
    blocks = trial.settings["blocks"]
    indices = sorted({0, blocks // 2, blocks - 1})
    values_at = np.asarray(values, float).reshape(blocks, -1, trial.d)[indices]
    exact = reference_velocities(trial, name, indices)
    return {"error": relative_gap(values_at, exact), **_costs(trial, name)}


def _costs(trial: Trial, name: str) -> dict[str, float]:
    """Number of operations in matrix products, and number of exponentials."""
    n, d, blocks = trial.n, trial.d, trial.settings["blocks"]
    pairs = n * n // blocks
    mixing = 0 if name == "hard" else 2 * n * d * blocks
    balancing = 0 if name == "hard" else 2 * trial.settings["passes"] * blocks**2
    return {"products": pairs * (4 * d + 2) + mixing, "exponentials": pairs + balancing}
