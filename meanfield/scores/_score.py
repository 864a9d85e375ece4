"""What a score is."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from meanfield.tokens import Tokens


class AbstractScore(eqx.Module):
    """A function of a query and a key; `-inf` excludes the pair."""

    @abc.abstractmethod
    def __call__(self, queries: Tokens, keys: Tokens) -> Float[Array, "m n"]:
        """All scores of `m` queries against `n` keys."""
