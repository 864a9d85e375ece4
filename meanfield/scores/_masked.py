"""Masked scores, which exclude pairs of tokens according to their positions."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield._array import positive
from meanfield.errors import InvalidInputError
from meanfield.tokens import Tokens

from ._score import AbstractScore


def causal(query: Float[Array, "..."], key: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Causal mask, by which a token sees the tokens at its own position and before.

    Examples:
        >>> from meanfield.scores import causal
        >>> s = jnp.array([0.0, 0.5, 1.0])
        >>> print(causal(s[:, None], s[None, :]))
        [[ True False False]
         [ True  True False]
         [ True  True  True]]
    """
    return key <= query


class Alibi(eqx.Module):
    r"""Mask by which a token sees earlier tokens and itself, the later the more.

    A key at position $s'$ has the weight $e^{-\lambda(s - s')}$ for a query at $s$. It
    is used by `Prefix`, which moves a token by the measure with these weights.

    Attributes:
        rate: $\lambda$, in units of one over the length of the sequence.
        is_normalised: whether the weights of each query are rescaled to sum to the mass
            of all keys. Softmax divides by their sum, so it makes no
            difference there.

    Examples:
        >>> from meanfield.scores import Alibi
        >>> s = jnp.array([0.0, 0.5, 1.0])
        >>> print(jnp.exp(Alibi(2.0).log_weights(s[2], s)))
        [0.1353 0.3679 1.    ]
    """

    rate: float
    is_normalised: bool = eqx.field(static=True, default=True)
    hides_later: ClassVar[bool] = True

    def __check_init__(self) -> None:
        positive("rate", self.rate)

    def __call__(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Bool[Array, "..."]:
        """Whether `query` sees `key`."""
        return causal(query, key)

    def log_weights(
        self, query: Float[Array, "..."], key: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """The logarithms of the weights; those of later tokens are zero."""
        return -self.rate * jnp.maximum(query - key, 0)


class Masked(AbstractScore):
    r"""A score that equals `score` where `mask(s_query, s_key)` holds, else $-\infty$.

    A mask is a predicate on two positions, such as `causal`, which broadcasts over its
    arguments. Queries and keys must have positions.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import Dot, Masked, causal
        >>> tokens = Tokens(jnp.ones((2, 1)), position=jnp.array([0.0, 1.0]))
        >>> print(Masked(Dot(jnp.eye(1), jnp.eye(1)), causal)(tokens, tokens))
        [[  1. -inf]
         [  1.   1.]]
    """

    score: AbstractScore
    mask: Callable[[Array, Array], Bool[Array, "m n"]]

    def __check_init__(self) -> None:
        if isinstance(self.mask, Alibi):
            raise InvalidInputError(
                "`Masked` selects keys, and `Alibi` weighs them: write "
                "`Prefix(dynamics, Alibi(rate))`."
            )

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        is_allowed = self.is_allowed(queries, keys)
        return jnp.where(is_allowed, self.score(queries, keys), -jnp.inf)

    def is_allowed(self, queries: Tokens, keys: Tokens) -> Bool[Array, "m n"]:
        """Whether the mask allows each pair."""
        query, key = positions(queries), positions(keys)
        return self.mask(query[:, None], key[None, :])

    @property
    def hides_later(self) -> bool:
        """Whether the mask declares that no token sees later tokens."""
        return self.mask is causal or getattr(self.mask, "hides_later", False)

    def share(self, queries: Tokens, keys: Tokens) -> Int[Array, ""]:
        """Whether the mask allows no pairs (0), some of the pairs (1) or all (2)."""
        if self.mask is causal:
            query, key = positions(queries), positions(keys)
            has_any = jnp.min(key) <= jnp.max(query)
            return has_any.astype(int) + (jnp.max(key) <= jnp.min(query))
        is_allowed = self.is_allowed(queries, keys)
        return jnp.any(is_allowed).astype(int) + jnp.all(is_allowed)


def positions(tokens: Tokens) -> Float[Array, " n"]:
    """The positions of tokens, which a mask compares.

    Raises:
        InvalidInputError: if the tokens have no positions.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import positions
        >>> print(positions(Tokens(jnp.ones((2, 1)), jnp.array([0.0, 1.0]))))
        [0. 1.]
    """
    if tokens.position is None:
        raise InvalidInputError(
            "A mask compares positions, and these tokens have none; create them as "
            "`Tokens(x, position)` with positions in [0, 1]."
        )
    return tokens.position
