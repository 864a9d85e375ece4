"""DistilBERT: the layers of BERT under other names, and no segments."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from meanfield.errors import InputFileError
from meanfield.models import (
    AbstractArchitecture,
    Checkpoint,
    HeadWeights,
    Parts,
    Sizes,
    architectures,
)
from meanfield.models.blocks import ACTIVATIONS, attention_output, layer_norm

EPSILON = 1e-12  # in the square root of a LayerNorm
KEYS = {"dim", "n_heads", "n_layers", "vocab_size", "max_position_embeddings"}


@architectures.register("distilbert")
@dataclass(frozen=True)
class DistilBert(AbstractArchitecture):
    """DistilBERT without the head of a task; Sanh et al., 2019."""

    checkpoint: Checkpoint

    def __post_init__(self) -> None:
        if missing := sorted(KEYS - self.checkpoint.config.keys()):
            raise InputFileError(
                f"The config of `{self.checkpoint.folder}` must be that of DistilBERT; "
                f"it lacks `{'`, `'.join(missing)}`."
            )

    @property
    @override
    def sizes(self) -> Sizes:
        config = self.checkpoint.config
        d, n_heads = config["dim"], config["n_heads"]
        n_words, n_positions = config["vocab_size"], config["max_position_embeddings"]
        return Sizes(config["n_layers"], n_heads, d, d // n_heads, n_words, n_positions)

    @override
    def heads(self, layer: int) -> HeadWeights:
        d, shape = self.sizes.dimension, (self.sizes.n_heads, self.sizes.head_dimension)
        root = f"transformer.layer.{layer}.attention"
        (Q, q), (K, k), (W, b), (O, o) = (
            self._dense(f"{root}.{name}_lin") for name in ("q", "k", "v", "out")
        )
        return HeadWeights(
            Q=Q.reshape(*shape, d),
            K=K.reshape(*shape, d),
            query_bias=q.reshape(shape),
            key_bias=k.reshape(shape),
            value_projection=W.reshape(*shape, d),
            value_bias=b.reshape(shape),
            output_projection=np.moveaxis(O.reshape(d, *shape), 1, 0),
            output_bias=np.broadcast_to(o / shape[0], (shape[0], d)),
        )

    @override
    def embedding(self, ids: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        rows = {"word": ids.tolist(), "position": range(len(ids))}
        parts = [
            self.checkpoint.rows(
                f"{self._prefix}embeddings.{kind}_embeddings.weight", indices
            )
            for kind, indices in rows.items()
        ]
        return self._norm("embeddings.LayerNorm", parts[0] + parts[1])

    @override
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        root = f"transformer.layer.{layer}"
        attention = attention_output(self.heads(layer), x)
        y = self._norm(f"{root}.sa_layer_norm", x + attention)
        (up, shift), (down, bias) = (
            self._dense(f"{root}.ffn.{name}") for name in ("lin1", "lin2")
        )
        activation = ACTIVATIONS[self.checkpoint.config.get("activation", "gelu")]
        mlp = activation(y @ up.T + shift) @ down.T + bias
        output = self._norm(f"{root}.output_layer_norm", y + mlp)
        return Parts(attention, mlp, norm=output - mlp - x - attention)

    def _dense(self, name: str) -> tuple[np.ndarray, ...]:
        names = [f"{self._prefix}{name}.{part}" for part in ("weight", "bias")]
        return self.checkpoint.arrays(names)

    @property
    def _prefix(self) -> str:
        """What the names of arrays begin with, in a network with a task head."""
        name = "distilbert.embeddings.word_embeddings.weight"
        return "distilbert." if name in self.checkpoint.entries else ""

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self._dense(name)
        return layer_norm(x, weight, bias, epsilon=EPSILON)
