"""Networks of the training tasks in plain NumPy, written from the papers.

They use the named arrays of a trained network. Sparse attention uses the NumPy
reference of the statements; nothing else is code of the library.
"""

from collections.abc import Callable, Mapping

import numpy as np
from reference import Parameters, Sides, half_steps_across
from scipy.special import ndtr, softmax
from sparse_reference import Sequence, local_weights

from meanfield.theorems.reference.sparse import balance, balance_causally

Arrays = Mapping[str, np.ndarray]
# From the arrays of one head, queries and keys to the attention matrix.
Matrix = Callable[[Arrays, np.ndarray, np.ndarray], np.ndarray]
PASSES = 5  # of sparse attention
# The attention of a decoder whose encoder has this attention.
CAUSAL = {"softmax": "causal softmax", "sparse-sinkhorn": "sparse-sinkhorn-causal"}


def softmax_matrix(head: Arrays, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return softmax(q @ k.T / head["score.epsilon"], axis=1)


def causal_matrix(head: Arrays, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    scores = q @ k.T / head["score.epsilon"]
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf), axis=1)


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


def sparse_matrix(head: Arrays, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Section 3.2 of tay2020 with its errata; `x` and `y` are the same tokens."""
    sequence, logits = _sort_logits(head, y, Sequence.pooled)
    return local_weights(_scores(head), sequence, balance(logits, PASSES), False)


def causal_sparse_matrix(head: Arrays, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Section 3.3 of tay2020 with its errata; `x` and `y` are the same tokens."""
    sequence, logits = _sort_logits(head, y, Sequence.pooled_before)
    R = balance_causally(logits, PASSES)
    return local_weights(_scores(head), sequence, R, True)


def _sort_logits(
    head: Arrays, x: np.ndarray, pool: Callable[[Sequence], np.ndarray]
) -> tuple[Sequence, np.ndarray]:
    """Blocks of equally heavy tokens, and exponentials of the scores that sort them."""
    W = head["coupling.sorting.network.layers.0.matrix"]
    sequence = Sequence(x, np.ones(len(x)), W.shape[1])
    return sequence, np.exp(pool(sequence) @ W / head["coupling.sorting.temperature"])


def _scores(head: Arrays) -> Parameters:
    Q, K, epsilon = head["score.Q"], head["score.K"], float(head["score.epsilon"])
    return Parameters(Q, K, np.eye(Q.shape[1]), epsilon)


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
    "causal softmax": causal_matrix,
    "esp-soft": sliced_matrix,
    "sinkhorn": sinkhorn_matrix,
}
# These take tokens in place of queries and keys.
MATRICES_OF_TOKENS: Mapping[str, Matrix] = {
    "differential": differential_matrix,
    "sparse-sinkhorn": sparse_matrix,
    "sparse-sinkhorn-causal": causal_sparse_matrix,
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
        # A masked score has its score as a part.
        names = {key: key.replace("score.score.", "score.") for key in w}
        head = {names[key]: array[number] for key, array in w.items()}
        values = y @ head["value_projection"].T @ head["output_projection"].T
        if name in MATRICES_OF_TOKENS:
            weights = MATRICES_OF_TOKENS[name](head, x, y)
        else:
            q, k = x @ head["score.Q"].T, y @ head["score.K"].T
            weights = MATRICES[name](head, q, k)
        total = total + weights @ values
    return total


def encode(w: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """The tokens after all blocks of an encoder."""
    n_blocks = 1 + max(int(k.split(".")[2]) for k in w if k.startswith("encoder."))
    for number in range(n_blocks):
        block = part_of(w, f"encoder.blocks.{number}.")
        z = norm(part_of(block, "pre_norm."), x)
        heads, hidden = part_of(block, "part.heads."), part_of(block, "part.")
        x = x + (attention(heads, name, z, z) if heads else perceptron(hidden, z))
    return x


def answer(w: Arrays, x: np.ndarray) -> np.ndarray:
    return linear(part_of(w, "output_layer."), norm(part_of(w, "norm."), x))


def patch_network(w: Arrays, name: str, image: np.ndarray) -> np.ndarray:
    """Scores (1, classes) of an image, by a network of `patches` or `parity`."""
    p = int(np.sqrt(w["embedding.weight"].shape[1]))
    m = len(image) // p
    rows = [
        image[p * i : p * i + p, p * j : p * j + p] for i in range(m) for j in range(m)
    ]
    embedded = linear(part_of(w, "embedding."), np.array([r.ravel() for r in rows]))
    x = np.concatenate([w["class_token"], embedded]) + w["position_embedding"]
    return answer(w, encode(w, name, x)[:1])


def set_network(w: Arrays, name: str, points: np.ndarray) -> np.ndarray:
    """Scores (1, kinds of solids) of a cloud, by a network of `solids`."""
    x = linear(part_of(w, "embedding."), points)
    for number in range(2):
        block = part_of(w, f"blocks.{number}.")
        inducing = _cross_block(part_of(block, "inward."), name, block["points"], x)
        x = _cross_block(part_of(block, "outward."), name, x, inducing)
    pooling = part_of(w, "pooling.")
    x = _cross_block(part_of(pooling, "block."), name, pooling["points"], x)
    return answer(w, x)


def sequence_network(
    w: Arrays, name: str, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Scores (target, symbols) of `sorting`, whose decoder has the same attention."""
    embedding = w["embedding"]
    begin = len(embedding) - 1
    encoded = encode(w, name, embedding[source] + _sinusoids(source, embedding))
    shifted = np.append(begin, target[:-1])
    x = embedding[shifted] + _sinusoids(shifted, embedding)
    for number in range(2):
        block = part_of(w, f"decoder.blocks.{number}.")
        causal = part_of(block, "causal_layer.")
        z = norm(part_of(causal, "pre_norm."), x)
        x = x + attention(part_of(causal, "part.heads."), CAUSAL[name], z, z)
        x = _cross_block(part_of(block, "cross_layer."), "softmax", x, encoded)
    return answer(w, x)


def _sinusoids(symbols: np.ndarray, embedding: np.ndarray) -> np.ndarray:
    waves = embedding.shape[1] // 2
    angles = np.outer(np.arange(len(symbols)), np.geomspace(1, 1e-4, waves))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def character_network(w: Arrays, name: str, text: np.ndarray) -> np.ndarray:
    """Scores (text, symbols) of the next character, by a network of `characters`."""
    x = w["embedding"][text] + w["position_embedding"]
    return answer(w, encode(w, name, x))


def _cross_block(w: Arrays, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    queries = norm(part_of(w, "query_norm."), x)
    keys = norm(part_of(w, "key_norm."), y)
    h = x + attention(part_of(w, "attention.heads."), name, queries, keys)
    return h + perceptron(part_of(w, "perceptron."), norm(part_of(w, "inner_norm."), h))
