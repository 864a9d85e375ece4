"""Scores that leave pairs out by their positions."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from typing_extensions import override

from meanfield.errors import InvalidInputError
from meanfield.tokens import Tokens

from ._score import AbstractScore


def causal(query: Float[Array, "..."], key: Float[Array, "..."]) -> Bool[Array, "..."]:
    """A token sees those at its own position and before.

    Examples:
        >>> from meanfield.scores import causal
        >>> s = jnp.array([0.0, 0.5, 1.0])
        >>> print(causal(s[:, None], s[None, :]))
        [[ True False False]
         [ True  True False]
         [ True  True  True]]
    """
    return key <= query


class Masked(AbstractScore):
    r"""`score` where `mask(s_query, s_key)` holds, $-\infty$ elsewhere.

    The mask is a predicate on positions, broadcast over its arguments; see
    `causal`. Both sides must carry positions.

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

    @override
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        allowed = self.allowed(queries, keys)
        return jnp.where(allowed, self.score(queries, keys), -jnp.inf)

    def allowed(self, queries: Tokens, keys: Tokens) -> Bool[Array, "m n"]:
        """Where the mask holds."""
        query, key = positions(queries), positions(keys)
        return self.mask(query[:, None], key[None, :])

    @property
    def hides_later(self) -> bool:
        """Whether the mask says that no token sees one after it."""
        return self.mask is causal or getattr(self.mask, "hides_later", False)

    def share(self, queries: Tokens, keys: Tokens) -> Int[Array, ""]:
        """How many pairs it allows: 0 none, 1 some, 2 all."""
        if self.mask is causal:
            query, key = positions(queries), positions(keys)
            some = jnp.min(key) <= jnp.max(query)
            return some.astype(int) + (jnp.max(key) <= jnp.min(query))
        allowed = self.allowed(queries, keys)
        return jnp.any(allowed).astype(int) + jnp.all(allowed)


def positions(tokens: Tokens) -> Float[Array, " n"]:
    """The positions that a mask compares.

    Raises:
        InvalidInputError: if there are none.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import positions
        >>> print(positions(Tokens(jnp.ones((2, 1)), jnp.array([0.0, 1.0]))))
        [0. 1.]
    """
    if tokens.position is None:
        raise InvalidInputError(
            "A mask compares positions, and these tokens have none; build them as "
            "`Tokens(x, position)` with positions in [0, 1]."
        )
    return tokens.position
