"""What a score is."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from meanfield.tokens import Tokens


class AbstractScore(eqx.Module):
    """A function of a query and a key; `-inf` excludes the pair.

    Examples:
        >>> from meanfield import Tokens
        >>> from meanfield.scores import AbstractScore
        >>> class Cosine(AbstractScore):
        ...     def __call__(self, queries, keys):
        ...         unit = lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True)
        ...         return unit(queries.x) @ unit(keys.x).T
        >>> x = Tokens(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> print(Cosine()(x, x))
        [[1. 0.]
         [0. 1.]]
    """

    @abc.abstractmethod
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        """All scores of `m` queries against `n` keys."""
