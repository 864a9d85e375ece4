"""Networks of the training tasks in plain NumPy, written from the papers.

They use no code of the library: only the named arrays of a trained network.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from reference import Parameters, Sides, half_steps_across
from scipy.special import ndtr, softmax

Arrays = Mapping[str, np.ndarray]
# From the arrays of one head, queries and keys to the attention matrix.
Matrix = Callable[[Arrays, np.ndarray, np.ndarray], np.ndarray]


def softmax_matrix(head: Arrays, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return softmax(q @ k.T / head["score.epsilon"], axis=1)


def sinkhorn_matrix(head: Arrays, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Five half-steps, from rows to rows; columns have the weights of the keys."""
    one, (m, n) = np.eye(q.shape[1]), (len(q), len(k))
    parameters = Parameters(one, one, one, float(head["score.epsilon"]))
    sides = Sides(q, np.full(m, 1 / m), k, np.full(n, 1 / n))
    kernel = half_steps_across(parameters, q, sides, iterations=5)
    return parameters.epsilon * kernel / n


def differential_matrix(head: Arrays, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The second softmax has queries and keys of its own; `x` and `y` are tokens."""
    parts = []
    for name in ("score", "coupling.second"):
        q, k = x @ head[f"{name}.Q"].T, y @ head[f"{name}.K"].T
        parts.append(softmax(q @ k.T / head[f"{name}.epsilon"], axis=1))
    return parts[0] - head["coupling.share"] * parts[1]


def sliced_matrix(head: Arrays, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Algorithm 1 of shahbazi2025 with its errata, and rows divided by their sums."""
    t, tau = float(head["coupling.line_score.temperature"]), head["coupling.tau"]
    plans, costs = [], []
    for direction in head["coupling.directions"]:
        axis = direction / np.linalg.norm(direction)
        A, B = (_soft_sort(points @ axis, t) for points in (q, k))
        plan = A.T @ B
        plan = plan / plan.sum(axis=1, keepdims=True)
        plans.append(plan)
        squares = np.sum((q[:, None] - k[None]) ** 2, axis=2)
        costs.append(np.mean(np.sum(plan * squares, axis=1)))
    shares = softmax(-tau * np.array(costs) / head["score.epsilon"])
    return np.einsum("l,lij->ij", shares, np.array(plans))


def _soft_sort(u: np.ndarray, t: float) -> np.ndarray:
    return softmax(-np.abs(np.sort(u)[:, None] - u[None, :]) / t, axis=1)


MATRICES: Mapping[str, Matrix] = {
    "softmax": softmax_matrix,
    "esp-soft": sliced_matrix,
    "sinkhorn": sinkhorn_matrix,
    "differential": differential_matrix,
}


def part_of(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, under the rest of their names."""
    return {
        k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)
    }


def linear(w: Arrays, x: np.ndarray) -> np.ndarray:
    return x @ w["weight"].T + w["bias"]


def norm(w: Arrays, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    return centred / deviation * w["weight"] + w["bias"]


def perceptron(w: Arrays, x: np.ndarray) -> np.ndarray:
    hidden = linear(part_of(w, "first."), x)
    return linear(part_of(w, "second."), hidden * ndtr(hidden))  # GELU


def attention(w: Arrays, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sum over heads of attention from the tokens `x` to the tokens `y`."""
    total = np.zeros_like(x)
    for number in range(len(w["value_projection"])):
        head = {key: array[number] for key, array in w.items()}
        sides: Any = (x @ head["score.Q"].T, y @ head["score.K"].T)
        if name == "differential":
            sides = (x, y)
        values = y @ head["value_projection"].T @ head["output_projection"].T
        total = total + MATRICES[name](head, *sides) @ values
    return total


def patch_network(w: Arrays, name: str, image: np.ndarray) -> np.ndarray:
    """Scores of the classes of an image, by a network of `patches` or `parity`."""
    p = int(np.sqrt(w["embedding.weight"].shape[1]))
    m = len(image) // p
    rows = [
        image[p * i : p * i + p, p * j : p * j + p] for i in range(m) for j in range(m)
    ]
    embedded = linear(part_of(w, "embedding."), np.array([r.ravel() for r in rows]))
    x = np.concatenate([w["class_token"], embedded]) + w["position_embedding"]
    n_blocks = 1 + max(int(k.split(".")[2]) for k in w if k.startswith("encoder."))
    for number in range(n_blocks):
        block = part_of(w, f"encoder.blocks.{number}.")
        z = norm(part_of(block, "pre_norm."), x)
        heads, hidden = part_of(block, "part.heads."), part_of(block, "part.")
        x = x + (attention(heads, name, z, z) if heads else perceptron(hidden, z))
    return linear(part_of(w, "output_layer."), norm(part_of(w, "norm."), x[0]))


def set_network(w: Arrays, name: str, points: np.ndarray) -> np.ndarray:
    """Scores of the kinds of solids of a cloud, by a network of `solids`."""
    x = linear(part_of(w, "embedding."), points)
    for number in range(2):
        block = part_of(w, f"blocks.{number}.")
        inducing = _cross_block(part_of(block, "inward."), name, block["points"], x)
        x = _cross_block(part_of(block, "outward."), name, x, inducing)
    pooling = part_of(w, "pooling.")
    x = _cross_block(part_of(pooling, "block."), name, pooling["points"], x)
    return linear(part_of(w, "output_layer."), norm(part_of(w, "norm."), x[0]))


def _cross_block(w: Arrays, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    queries = norm(part_of(w, "query_norm."), x)
    keys = norm(part_of(w, "key_norm."), y)
    h = x + attention(part_of(w, "attention.heads."), name, queries, keys)
    return h + perceptron(part_of(w, "perceptron."), norm(part_of(w, "inner_norm."), h))
