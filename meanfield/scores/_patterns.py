"""Masks of sparse attention that select keys by blocks or by strides.

Widths are shares of the sequence: if $n$ tokens have positions $1/n, 2/n, …, 1$, a
width of $b/n$ covers $b$ tokens.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

ROUNDINGS = 16  # rounding error of a position divided by a width, in eps


class BlockLocal(eqx.Module):
    r"""Mask of blocks: $s$ sees $t$ if $\lceil t/w\rceil = \lceil s/w\rceil$.

    A token sees all tokens of its own block, earlier and later ones.

    Attributes:
        width: the length of a block; the whole sequence has length 1.

    Examples:
        >>> from meanfield.scores import BlockLocal
        >>> s = jnp.array([0.25, 0.5, 0.75, 1.0])
        >>> print(BlockLocal(0.5)(s[:, None], s[None, :]).astype(int))
        [[1 1 0 0]
         [1 1 0 0]
         [0 0 1 1]
         [0 0 1 1]]
    """

    width: float

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        return _block(query, self.width) == _block(key, self.width)


class BlockCausal(eqx.Module):
    r"""Causal blocks: $s$ sees $t\leq s$ if $\lceil t/w\rceil = \lceil s/w\rceil$.

    A token sees the tokens of its own block up to itself.

    Attributes:
        width: the length of a block; the whole sequence has length 1.

    Examples:
        >>> from meanfield.scores import BlockCausal
        >>> s = jnp.array([0.25, 0.5, 0.75, 1.0])
        >>> print(BlockCausal(0.5)(s[:, None], s[None, :]).astype(int))
        [[1 0 0 0]
         [1 1 0 0]
         [0 0 1 0]
         [0 0 1 1]]
    """

    width: float
    hides_later: ClassVar[bool] = True

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        is_same_block = _block(query, self.width) == _block(key, self.width)
        return (key <= query) & is_same_block


class Strided(eqx.Module):
    r"""Strided mask: $s$ sees $t \leq s$ if $s - t < w$ or $(s - t)/w$ is whole.

    A token sees recent tokens, and earlier ones at regular strides. This is the strided
    pattern of sparse transformers, as one mask.

    Attributes:
        width: the stride; the whole sequence has length 1.

    Examples:
        >>> from meanfield.scores import Strided
        >>> s = jnp.arange(1, 6) / 5
        >>> print(Strided(0.4)(s[:, None], s[None, :]).astype(int))
        [[1 0 0 0 0]
         [1 1 0 0 0]
         [1 1 1 0 0]
         [0 1 1 1 0]
         [1 0 1 1 1]]
    """

    width: float
    hides_later: ClassVar[bool] = True

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        lag, slack = (query - key) / self.width, _slack(query, self.width)
        is_near = lag < 1 - slack
        return (key <= query) & (is_near | (jnp.abs(lag - jnp.round(lag)) <= slack))


class Fixed(eqx.Module):
    r"""Fixed mask: $s$ sees $t\leq s$ in its own block, or where $t/w$ is whole.

    A token sees its block up to itself, and the last token of each earlier block. This
    is the fixed pattern of sparse transformers, as one mask.

    Attributes:
        width: the length of a block; the whole sequence has length 1.

    Examples:
        >>> from meanfield.scores import Fixed
        >>> s = jnp.arange(1, 6) / 5
        >>> print(Fixed(0.4)(s[:, None], s[None, :]).astype(int))
        [[1 0 0 0 0]
         [1 1 0 0 0]
         [0 1 1 0 0]
         [0 1 1 1 0]
         [0 1 0 1 1]]
    """

    width: float
    hides_later: ClassVar[bool] = True

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        places = key / self.width
        last = jnp.abs(places - jnp.round(places)) <= _slack(key, self.width)
        is_same_block = _block(query, self.width) == _block(key, self.width)
        return (key <= query) & (is_same_block | last)


def _slack(position: Float[Array, "..."], width: float) -> Float[Array, "..."]:
    """Rounding error of a position divided by the width."""
    eps = jnp.finfo(position.dtype).eps
    return ROUNDINGS * eps * jnp.maximum(jnp.abs(position) / width, 1)


def _block(position: Float[Array, "..."], width: float) -> Float[Array, "..."]:
    """Number of the block that contains a position; a block includes its right end."""
    return jnp.ceil(position / width - _slack(position, width))
