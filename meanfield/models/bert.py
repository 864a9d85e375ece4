r"""BERT-like encoders: full softmax attention, with LayerNorm after each block.

A BERT layer maps states $x$ to $y = \mathrm{LN}(x + a(x))$, and $y$ to
$\mathrm{LN}(y + m(y))$ with an MLP $m$. Here $a$ is multi-head attention *at* $x$,
without a LayerNorm before it, so the weights give $a$ directly. Source: Devlin et al.,
2019; Vaswani et al., 2017, section 3.2.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
import pydantic
from jaxtyping import Float, Int
from typing_extensions import override

from meanfield._counting import count_phrase
from meanfield.errors import InputFileError

from ._architecture import AbstractArchitecture, Sizes, architectures
from .blocks import ACTIVATIONS, HeadWeights, Parts, attention_output, layer_norm
from .checkpoint import CONFIG, WEIGHTS, Checkpoint

MOST_LAYERS = 10_000  # limits the length of lists of layers


@final
class BertConfig(pydantic.BaseModel):
    """The fields of the config that are used; all others are ignored."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    hidden_size: pydantic.PositiveInt
    num_attention_heads: pydantic.PositiveInt
    num_hidden_layers: Annotated[int, pydantic.Field(gt=0, le=MOST_LAYERS)]
    vocab_size: pydantic.PositiveInt
    max_position_embeddings: pydantic.PositiveInt
    intermediate_size: pydantic.PositiveInt | None = None
    hidden_act: str = "gelu"
    layer_norm_eps: pydantic.NonNegativeFloat = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False

    @pydantic.model_validator(mode="after")
    def _heads_divide_the_dimension(self) -> "BertConfig":
        if self.hidden_size % self.num_attention_heads:
            raise ValueError("`num_attention_heads` must divide `hidden_size`")
        return self


@final
@dataclass(frozen=True)
class Bert(AbstractArchitecture):
    """A BERT encoder; build it with `Bert.from_checkpoint`, or with `models.read`.

    Examples:
        >>> from meanfield import models
        >>> network = models.Bert.from_checkpoint(models.load("minilm"))
        >>> network.config.num_hidden_layers
        6
    """

    checkpoint: Checkpoint
    config: BertConfig

    @staticmethod
    def from_checkpoint(checkpoint: Checkpoint) -> "Bert":
        """Checks the config of a checkpoint, and returns its network.

        Raises:
            InputFileError: if the config lacks a number, asks for something
                unsupported, such as relative positions or a causal decoder, or states
                fewer layers than the weights have.
        """
        try:
            config = BertConfig.model_validate(dict(checkpoint.config))
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputFileError(
                f"`{checkpoint.folder / CONFIG}` does not describe a BERT encoder "
                f"({field or 'sizes'}: {first['msg']}). Only BERT encoders are "
                "supported."
            ) from error
        _check_layer_count(checkpoint, config)
        return Bert(checkpoint, config)

    @property
    @override
    def sizes(self) -> Sizes:
        config = self.config
        return Sizes(
            n_layers=config.num_hidden_layers,
            n_heads=config.num_attention_heads,
            dimension=config.hidden_size,
            head_dimension=config.hidden_size // config.num_attention_heads,
            vocabulary=config.vocab_size,
            max_positions=config.max_position_embeddings,
        )

    @override
    def heads(self, layer: int) -> HeadWeights:
        sizes = self.sizes
        d, shape = sizes.dimension, (sizes.n_heads, sizes.head_dimension)
        square = (d, d)
        root = f"encoder.layer.{layer}.attention"
        query, query_bias = self._dense(f"{root}.self.query", square)
        key, key_bias = self._dense(f"{root}.self.key", square)
        value, value_bias = self._dense(f"{root}.self.value", square)
        output, output_bias = self._dense(f"{root}.output.dense", square)
        share = output_bias / sizes.n_heads
        return HeadWeights(
            Q=query.reshape(*shape, d),
            K=key.reshape(*shape, d),
            query_bias=query_bias.reshape(shape),
            key_bias=key_bias.reshape(shape),
            value_projection=value.reshape(*shape, d),
            value_bias=value_bias.reshape(shape),
            output_projection=np.moveaxis(output.reshape(d, *shape), 1, 0),
            output_bias=np.broadcast_to(share, (sizes.n_heads, d)),
        )

    @override
    def embedding(self, ids: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """LayerNorm of the sum of word, position and segment-0 embeddings."""
        word_rows = self._rows("word", ids.tolist())
        positions = self._rows("position", range(len(ids)))
        segment = self._rows("token_type", [0])
        return self._apply_layer_norm(
            "embeddings.LayerNorm", word_rows + positions + segment
        )

    @override
    def parts(self, layer: int, x: Float[np.ndarray, "n d"]) -> Parts:
        r"""Attention $a(x)$, MLP $m(y)$ at $y = \mathrm{LN}(x + a(x))$, and both norms.

        Raises:
            InputFileError: if an array is missing or has another shape, or the config
                names an unknown activation.
        """
        root = f"encoder.layer.{layer}"
        attention = attention_output(self.heads(layer), x)
        y = self._apply_layer_norm(f"{root}.attention.output.LayerNorm", x + attention)
        mlp = self._perceptron(root, y)
        output = self._apply_layer_norm(f"{root}.output.LayerNorm", y + mlp)
        return Parts(attention, mlp, norm=output - mlp - x - attention)

    def _perceptron(
        self, root: str, y: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        name, (d, inner) = self.config.hidden_act, self._mlp_shape
        if name not in ACTIVATIONS:
            raise InputFileError(
                f"`{self.checkpoint.folder / CONFIG}` names the activation `{name}`, "
                f"but only {', '.join(ACTIVATIONS)} are supported."
            )
        up, shift = self._dense(f"{root}.intermediate.dense", (inner, d))
        down, bias = self._dense(f"{root}.output.dense", (d, inner))
        return ACTIVATIONS[name](y @ up.T + shift) @ down.T + bias

    @property
    def _mlp_shape(self) -> tuple[int, int]:
        """The shape of the output matrix of an MLP; 4 d hidden units by default."""
        d = self.config.hidden_size
        return d, self.config.intermediate_size or 4 * d

    def _dense(
        self, name: str, shape: tuple[int, int]
    ) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, " m"]]:
        weight, bias = self._arrays((f"{name}.weight", f"{name}.bias"))
        if weight.shape != shape or bias.shape != shape[:1]:
            raise self._shape_error(f"{name}.weight", weight.shape, shape)
        return weight, bias

    def _apply_layer_norm(
        self, name: str, x: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        old = f"{self._prefix}{name}.gamma" in self.checkpoint.entries
        endings = ("gamma", "beta") if old else ("weight", "bias")
        weight, bias = self._arrays([f"{name}.{ending}" for ending in endings])
        d = self.config.hidden_size
        if weight.shape != (d,) or bias.shape != (d,):
            raise self._shape_error(name, weight.shape, (d,))
        return layer_norm(x, weight, bias, epsilon=self.config.layer_norm_eps)

    def _rows(self, kind: str, indices: list[int] | range) -> np.ndarray:
        name = f"{self._prefix}embeddings.{kind}_embeddings.weight"
        rows = self.checkpoint.rows(name, indices)
        d = self.config.hidden_size
        if rows.shape[-1] != d:
            raise self._shape_error(name, rows.shape, (len(rows), d))
        return rows

    def _arrays(self, names: list[str] | tuple[str, ...]) -> tuple[np.ndarray, ...]:
        return self.checkpoint.arrays([self._prefix + name for name in names])

    @property
    def _prefix(self) -> str:
        # In networks with a task head, such as BertForMaskedLM, names have a prefix.
        inner = "bert.embeddings.word_embeddings.weight" in self.checkpoint.entries
        return "bert." if inner else ""

    def _shape_error(
        self, name: str, actual_shape: tuple[int, ...], expected_shape: tuple[int, ...]
    ) -> InputFileError:
        return InputFileError(
            f"`{name}` in `{self.checkpoint.folder / WEIGHTS}` has shape "
            f"{actual_shape}, but {CONFIG} asks for {expected_shape}; the two "
            "files do not belong together."
        )


def _check_layer_count(checkpoint: Checkpoint, config: BertConfig) -> None:
    """Raises if the weights have a layer beyond those that the config states."""
    n_layers = config.num_hidden_layers
    if any(f"encoder.layer.{n_layers}." in name for name in checkpoint.entries):
        raise InputFileError(
            f"`{checkpoint.folder / CONFIG}` states "
            f"{count_phrase(n_layers, 'layer')}, but {WEIGHTS} has more; the two files "
            "do not belong together. To run only some layers, keep the config and use "
            "`--model-layers`."
        )


architectures.register("bert")(Bert.from_checkpoint)
