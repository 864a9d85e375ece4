"""The forward pass of a network in NumPy, with the hidden states of all layers."""

import numpy as np
from jaxtyping import Float

from ._architecture import read
from .blocks import Parts
from .checkpoint import Checkpoint


def hidden_states(
    checkpoint: Checkpoint, text: str
) -> tuple[Float[np.ndarray, "layers n d"], tuple[Parts, ...]]:
    """The network's hidden states before and after each layer, and each layer's parts.

    The parts of a layer add up to its change of the states. Everything, including
    LayerNorms and MLPs, is computed in double precision.

    Raises:
        InputFileError: if a file is missing or damaged, or the config names an
            activation that is not known.
        InvalidInputError: if the text has more tokens than the network has positions.
        UnsupportedError: if the extra `models` is not installed.

    Examples:
        >>> from meanfield import models
        >>> states, parts = models.hidden_states(models.load("minilm"), "Alice sat.")
        >>> states.shape, len(parts)
        ((7, 5, 384), 6)
        >>> bool(np.allclose(states[0] + parts[0].displacement, states[1]))
        True
    """
    network = read(checkpoint)
    sizes = network.sizes
    ids = checkpoint.encode(text, limit=sizes.max_positions).ids
    states, parts = [network.embedding(ids)], []
    for layer in range(sizes.n_layers):
        parts.append(network.parts(layer, states[-1]))
        states.append(states[-1] + parts[-1].displacement)
    return np.stack(states), tuple(parts)
