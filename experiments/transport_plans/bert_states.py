r"""The states at which a trained BERT evaluates its attention.

The library's dynamics are the attention blocks alone; here the LayerNorms and the MLP
of each layer stand between them, as in the network: $y = \mathrm{LN}(x + a(x))$ and
$x' = \mathrm{LN}(y + W_2\,\mathrm{gelu}(W_1 y + b_1) + b_2)$. Source: Devlin et al.,
2019; Vaswani et al., 2017, section 3.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from meanfield import models
from meanfield.measures import Points


def entering_states(
    checkpoint: models.Checkpoint, text: models.Text
) -> Float[np.ndarray, "layers n d"]:
    """The states that enter each layer, the first being the embedding."""
    attention = models.layers(checkpoint)
    block = eqx.filter_jit(lambda dynamics, t, mu: mu.transport(dynamics.field(t, mu)))
    states = [np.asarray(text.tokens.x)]
    for layer in range(models.read(checkpoint).sizes.n_layers - 1):
        x = states[-1]
        y = x + np.asarray(block(attention, np.float64(layer), Points.uniform(x)))
        states.append(_after_attention(checkpoint, layer, y))
    return np.stack(states)


def _after_attention(
    checkpoint: models.Checkpoint, layer: int, sums: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """From the residual sum of the attention block to the end of the layer."""
    root = f"encoder.layer.{layer}"
    y = _layer_norm(checkpoint, f"{root}.attention.output.LayerNorm", sums)
    inner = _dense(checkpoint, f"{root}.intermediate.dense", y)
    gelu = inner * ndtr(inner)
    outer = _dense(checkpoint, f"{root}.output.dense", gelu)
    return _layer_norm(checkpoint, f"{root}.output.LayerNorm", y + outer)


def _dense(
    checkpoint: models.Checkpoint, name: str, x: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n m"]:
    weight, bias = checkpoint.arrays((f"{name}.weight", f"{name}.bias"))
    return x @ weight.T + bias


def _layer_norm(
    checkpoint: models.Checkpoint, name: str, x: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    weight, bias = checkpoint.arrays((f"{name}.weight", f"{name}.bias"))
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    epsilon = checkpoint.config["layer_norm_eps"]
    return weight * centred / np.sqrt(variance + epsilon) + bias
