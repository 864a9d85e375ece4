"""Residual blocks with norms, and encoders made of them."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from meanfield._typing import PRNGKey
from meanfield.dynamics import Layers, stack_trees
from meanfield.measures import Points

from ._head import SelfAttention, self_attention
from ._variant import Variant

Norm = eqx.nn.LayerNorm | eqx.nn.Identity
Part = Callable[[Points], Float[Array, "n d"]]


def apply_linear(layer: eqx.nn.Linear, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """$Wx_i + b$ at each token, as one product, whose gradient needs no transposes."""
    return x @ layer.weight.T + jnp.asarray(layer.bias)[None, :]


class Perceptron(eqx.Module):
    r"""$x \mapsto W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ at each token.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Perceptron
        >>> part = Perceptron(jax.random.key(0), d=3, width=8)
        >>> part(Points.uniform(jnp.zeros((5, 3)))).shape
        (5, 3)
    """

    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __init__(self, key: PRNGKey, *, d: int, width: int) -> None:
        keys = jax.random.split(key)
        self.first = eqx.nn.Linear(d, width, key=keys[0])
        self.second = eqx.nn.Linear(width, d, key=keys[1])

    def __call__(self, mu: Points) -> Float[Array, "n d"]:
        """The value added to each token."""
        inputs = apply_linear(self.first, mu.tokens.x)
        return apply_linear(self.second, jax.nn.gelu(inputs, approximate=False))


class Residual(eqx.Module):
    r"""Residual block $x \mapsto a(x + p(b(x)))$ with a part $p$ and norms $b$, $a$.

    In a pre-norm block, as in vision transformers, $a$ is the identity; in a post-norm
    block, as in the first transformers, $b$ is the identity. A block without norms is
    one Euler step.

    Attributes:
        part: $p$.
        pre_norm: $b$.
        post_norm: $a$.

    Examples:
        >>> import equinox as eqx
        >>> from meanfield import Points
        >>> from meanfield.training import Perceptron, Residual
        >>> none = eqx.nn.Identity()
        >>> part = Perceptron(jax.random.key(0), d=3, width=8)
        >>> mu = Points.uniform(jnp.zeros((5, 3)))
        >>> moved = Residual(part, none, none)(mu).tokens.x
        >>> print(jnp.allclose(moved, part(mu)))
        True
    """

    part: SelfAttention | Perceptron
    pre_norm: Norm
    post_norm: Norm

    def __call__(self, mu: Points) -> Points:
        """The tokens after the block."""
        x = mu.tokens.x + self.part(self.part_input(mu))
        return mu.replace_coordinates(jax.vmap(self.post_norm)(x))

    def part_input(self, mu: Points) -> Points:
        """The tokens that the part receives, after `pre_norm`."""
        return mu.replace_coordinates(jax.vmap(self.pre_norm)(mu.tokens.x))


def pre_norm_block(part: SelfAttention | Perceptron, d: int) -> Residual:
    """Residual block with a norm before the part.

    Examples:
        >>> from meanfield.training import Perceptron, pre_norm_block
        >>> block = pre_norm_block(Perceptron(jax.random.key(0), d=3, width=8), 3)
        >>> type(block.pre_norm).__name__, type(block.post_norm).__name__
        ('LayerNorm', 'Identity')
    """
    return Residual(part, eqx.nn.LayerNorm(d), eqx.nn.Identity())


def post_norm_block(part: SelfAttention | Perceptron, d: int) -> Residual:
    """Residual block with a norm after the sum.

    Examples:
        >>> from meanfield.training import Perceptron, post_norm_block
        >>> block = post_norm_block(Perceptron(jax.random.key(0), d=3, width=8), 3)
        >>> type(block.pre_norm).__name__, type(block.post_norm).__name__
        ('Identity', 'LayerNorm')
    """
    return Residual(part, eqx.nn.Identity(), eqx.nn.LayerNorm(d))


class Encoder(eqx.Module):
    """Sequence of residual blocks.

    Attributes:
        blocks: blocks, from the first to the last.

    Examples:
        >>> from meanfield import Points
        >>> from meanfield.training import Encoder, Variant
        >>> from meanfield.training import pre_norm_block, self_attention
        >>> layer = self_attention(
        ...     jax.random.key(0), Variant("softmax"), d=3, k=2, n_heads=4
        ... )
        >>> block = pre_norm_block(layer, 3)
        >>> encoder = Encoder((block, block))
        >>> encoder.plans(Points.uniform(jnp.eye(3))).shape  # layers, heads, n, n
        (2, 4, 3, 3)
    """

    blocks: tuple[Residual, ...]

    def __call__(self, mu: Points) -> Points:
        """The tokens after the last block."""
        for block in self.blocks:
            mu = block(mu)
        return mu

    def states(self, mu: Points) -> Float[Array, "depths n d"]:
        """The tokens before the first block and after each block."""
        x = [mu.tokens.x]
        for block in self.blocks:
            mu = block(mu)
            x.append(mu.tokens.x)
        return jnp.stack(x)

    def dynamics(self) -> Layers:
        """The dynamics of the attentions without norms and perceptrons.

        Each attention acts for one unit of time. Each layer of a network without norms
        and perceptrons is an explicit Euler step of length 1 for this dynamics.
        """
        parts = [block.part for block in self.blocks]
        layers = [part.dynamics() for part in parts if isinstance(part, SelfAttention)]
        return Layers(np.arange(len(layers) + 1), stack_trees(layers))

    def plans(self, mu: Points) -> Float[Array, "layers heads n n"]:
        """The attention matrices of all heads, at the inputs of their layers."""
        matrices = []
        for block in self.blocks:
            if isinstance(block.part, SelfAttention):
                matrices.append(block.part.plans(block.part_input(mu)))
            mu = block(mu)
        return jnp.stack(matrices)


def pre_norm_encoder(
    keys: Key[Array, " parts"],
    variant: Variant,
    *,
    d: int,
    k: int,
    n_heads: int,
    width: int,
) -> Encoder:
    """New encoder of pre-norm blocks, alternately self-attention and a perceptron.

    Args:
        keys: random keys, two for each pair of blocks.
        variant: attention of all heads.
        d: dimension of the tokens.
        k: dimension of a head.
        n_heads: number of heads.
        width: width of the perceptrons.

    Examples:
        >>> from meanfield.training import Variant, pre_norm_encoder
        >>> sizes = {"d": 4, "k": 2, "n_heads": 2, "width": 8}
        >>> keys = jax.random.split(jax.random.key(0), 2 * 3)
        >>> len(pre_norm_encoder(keys, Variant("softmax"), **sizes).blocks)
        6
    """
    parts = []
    for attention_key, perceptron_key in keys.reshape(-1, 2):
        parts += [
            self_attention(attention_key, variant, d=d, k=k, n_heads=n_heads),
            Perceptron(perceptron_key, d=d, width=width),
        ]
    return Encoder(tuple(pre_norm_block(part, d) for part in parts))
