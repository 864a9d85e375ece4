"""Decoders: causal self-attention and cross-attention to a source."""

import equinox as eqx
import jax
from jaxtyping import Array, Float

from meanfield._typing import PRNGKey
from meanfield.measures import Points

from ._blocks import Residual, pre_norm_block
from ._head import self_attention
from ._sequence import sequence_measure
from ._sets import CrossAttentionBlock
from ._variant import Variant

SOFTMAX = Variant("softmax")


class DecoderBlock(eqx.Module):
    """Block of causal self-attention, cross-attention to a source, and a perceptron.

    Each part is preceded by a norm. Self-attention is the causal form of an attention,
    softmax by default; cross-attention is softmax.

    Attributes:
        causal_layer: causal self-attention.
        cross_layer: cross-attention to the source, followed by the perceptron.

    Raises:
        UnsupportedError: if the attention has no causal form.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import DecoderBlock
        >>> block = DecoderBlock(jax.random.key(0), d=4, k=2, n_heads=2, width=8)
        >>> source = Points.uniform(jnp.ones((9, 4)))
        >>> places = jnp.arange(1, 5) / 4
        >>> block(Points.uniform(jnp.eye(4), position=places), source).tokens.x.shape
        (4, 4)
    """

    causal_layer: Residual
    cross_layer: CrossAttentionBlock

    def __init__(
        self,
        key: PRNGKey,
        variant: Variant = SOFTMAX,
        *,
        d: int,
        k: int,
        n_heads: int,
        width: int,
    ) -> None:
        first, second = jax.random.split(key)
        sizes = {"d": d, "k": k, "n_heads": n_heads}
        attention = self_attention(first, variant.causal_form(), **sizes)
        self.causal_layer = pre_norm_block(attention, d)
        self.cross_layer = CrossAttentionBlock(second, SOFTMAX, width=width, **sizes)

    def __call__(self, mu: Points, source: Points) -> Points:
        """The tokens after the block."""
        return self.cross_layer(self.causal_layer(mu), source)


class Decoder(eqx.Module):
    """Sequence of decoder blocks.

    Attributes:
        blocks: blocks, from the first to the last.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Decoder, DecoderBlock
        >>> block = DecoderBlock(jax.random.key(0), d=4, k=2, n_heads=2, width=8)
        >>> source = Points.uniform(jnp.ones((9, 4)))
        >>> Decoder((block, block))(jnp.eye(4), source).shape
        (4, 4)
    """

    blocks: tuple[DecoderBlock, ...]

    def __call__(self, x: Float[Array, "m d"], source: Points) -> Float[Array, "m d"]:
        """The sequence after the last block; no token depends on later ones."""
        mu = sequence_measure(x)
        for block in self.blocks:
            mu = block(mu, source)
        return mu.tokens.x
