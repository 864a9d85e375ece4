"""What a layer of an encoder adds to its states, computed in NumPy part by part."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, softmax

from ._weights import HeadWeights

ACTIVATIONS = {
    "gelu": lambda z: z * ndtr(z),
    "gelu_new": lambda z: (
        z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2
    ),
    "relu": lambda z: np.maximum(z, 0),
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]


class Parts(NamedTuple):
    r"""The displacement $x' - x$ of a layer, as the sum of what its parts add.

    Attributes:
        attention: what the attention block computes at the states that enter.
        mlp: what the MLP computes at the states that enter it.
        norm: what all LayerNorms of the layer change.

    Examples:
        >>> from meanfield import models
        >>> network = models.read(models.load("minilm"))
        >>> x = network.embedding(np.array([101, 7592, 102]))  # [CLS] hello [SEP]
        >>> parts = network.parts(0, x)
        >>> parts._fields, (x + parts.displacement).shape
        (('attention', 'mlp', 'norm'), (3, 384))
    """

    attention: Float[np.ndarray, "n d"]
    mlp: Float[np.ndarray, "n d"]
    norm: Float[np.ndarray, "n d"]

    @property
    def displacement(self) -> Float[np.ndarray, "n d"]:
        """Their sum: from the states that enter the layer to those that leave it."""
        return self.attention + self.mlp + self.norm


def attended(
    weights: HeadWeights, x: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """What the heads of a layer compute at states, by their thin factors."""
    turned = lambda W: np.swapaxes(W, -1, -2)
    queries = x @ turned(weights.Q) + weights.query_bias[:, None, :]
    keys = x @ turned(weights.K) + weights.key_bias[:, None, :]
    values = x @ turned(weights.reading) + weights.reading_bias[:, None, :]
    p = softmax(queries @ turned(keys) / weights.epsilon, axis=-1)
    heads = (p @ values) @ turned(weights.writing) + weights.writing_bias[:, None, :]
    return heads.sum(axis=0)


def layer_norm(
    x: Float[np.ndarray, "n d"],
    weight: Float[np.ndarray, " d"],
    bias: Float[np.ndarray, " d"],
    *,
    epsilon: float,
) -> Float[np.ndarray, "n d"]:
    """Each state centred, scaled to variance one, then weighted and shifted."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return weight * centred / np.sqrt(variance + epsilon) + bias
