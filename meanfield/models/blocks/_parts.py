"""The parts of an encoder layer in NumPy: attention, MLP and LayerNorm."""

from typing import NamedTuple

import numpy as np
import scipy  # SciPy loads its submodules lazily
from jaxtyping import Float

from ._weights import HeadWeights

ACTIVATIONS = {
    "gelu": lambda z: z * scipy.special.ndtr(z),
    "gelu_new": lambda z: (
        z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2
    ),
    "relu": lambda z: np.maximum(z, 0),
}
ACTIVATIONS["gelu_pytorch_tanh"] = ACTIVATIONS["gelu_new"]


class Parts(NamedTuple):
    r"""The displacement $x' - x$ of the states by a layer, as a sum of three parts.

    Attributes:
        attention: the output of the attention block at the states that enter the layer.
        mlp: the output of the MLP, at the states that enter it.
        norm: the change of the states by all LayerNorms of the layer.

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
        """The change of the states by the layer, which is the sum of the parts."""
        return self.attention + self.mlp + self.norm


def attention_output(
    weights: HeadWeights, x: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """The output of a layer's heads at the states `x`, from low-rank factors."""
    transpose = lambda W: np.swapaxes(W, -1, -2)
    queries = x @ transpose(weights.Q) + weights.query_bias[:, None, :]
    keys = x @ transpose(weights.K) + weights.key_bias[:, None, :]
    W, O = weights.value_projection, weights.output_projection
    values = x @ transpose(W) + weights.value_bias[:, None, :]
    p = scipy.special.softmax(queries @ transpose(keys) / weights.epsilon, axis=-1)
    heads = (p @ values) @ transpose(O) + weights.output_bias[:, None, :]
    return heads.sum(axis=0)


def layer_norm(
    x: Float[np.ndarray, "n d"],
    weight: Float[np.ndarray, " d"],
    bias: Float[np.ndarray, " d"],
    *,
    epsilon: float,
) -> Float[np.ndarray, "n d"]:
    """LayerNorm: centres a state, scales it to variance one, weights and shifts it."""
    deviations = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(deviations).mean(axis=-1, keepdims=True)
    return weight * deviations / np.sqrt(variance + epsilon) + bias
