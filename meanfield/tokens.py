"""Tokens: the atoms that an attention looks at and moves."""

import equinox as eqx
from jaxtyping import Array, Float


class Tokens(eqx.Module):
    r"""States of tokens, with their places in the sequence when order matters.

    Attributes:
        x: the states; they move. In a stack of measures, as of an ensemble, all arrays
            lead with the same axes.
        position: the places $s \in [0, 1]$; they never move; `None` if unused.

    Examples:
        >>> from meanfield import Tokens
        >>> tokens = Tokens(jnp.zeros((5, 2)), position=jnp.linspace(0, 1, 5))
        >>> tokens.n
        5
    """

    x: Float[Array, "*batch n d"]
    position: Float[Array, "*batch n"] | None = None

    @property
    def n(self) -> int:
        """Number of tokens."""
        return self.x.shape[-2]
