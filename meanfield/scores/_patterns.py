"""Masks by blocks and strides: who sees whom in sequences of sparse attention.

A width is a share of the sequence: of $n$ tokens at positions $1/n, 2/n, …, 1$ the
width $b/n$ is that of $b$ tokens.
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

ROUNDINGS = 16  # of a position over a width, by which that may be off


class BlockLocal(eqx.Module):
    """A token sees those of its own block, before and after it.

    Attributes:
        width: the length of a block, of the whole sequence's 1.

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
    """A token sees those of its own block up to itself.

    Attributes:
        width: the length of a block, of the whole sequence's 1.

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
        own = _block(query, self.width) == _block(key, self.width)
        return (key <= query) & own


class Strided(eqx.Module):
    """A token sees those less than `width` before it, and every `width` back.

    The strided pattern of sparse transformers, in one mask.

    Attributes:
        width: the stride, of the whole sequence's 1.

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
        near = lag < 1 - slack
        return (key <= query) & (near | (jnp.abs(lag - jnp.round(lag)) <= slack))


class Fixed(eqx.Module):
    """A token sees those before it in its block, and the last of each block before.

    The fixed pattern of sparse transformers, in one mask.

    Attributes:
        width: the length of a block, of the whole sequence's 1.

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
        own = _block(query, self.width) == _block(key, self.width)
        return (key <= query) & (own | last)


def _slack(position: Float[Array, "..."], width: float) -> Float[Array, "..."]:
    """What a position over the width may be off by."""
    eps = jnp.finfo(position.dtype).eps
    return ROUNDINGS * eps * jnp.maximum(jnp.abs(position) / width, 1)


def _block(position: Float[Array, "..."], width: float) -> Float[Array, "..."]:
    """The number of a block, which its last token ends."""
    return jnp.ceil(position / width - _slack(position, width))
