"""Tokens: the atoms of a measure, which attention moves."""

import equinox as eqx
from jaxtyping import Array, Float

from ._array import float_array
from ._typing import Numbers
from .errors import InvalidInputError


class Tokens(eqx.Module):
    r"""States of tokens, with optional positions in the sequence.

    Attributes:
        x: the states, which move. In a stack of measures, such as an ensemble, all
            arrays have the same leading axes.
        position: the positions $s \in [0, 1]$, which never change; `None` if unused.

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


def as_tokens(x: Numbers, position: Numbers | None = None) -> Tokens:
    """Tokens whose states are the rows of `x`, with optional positions.

    Raises:
        InvalidInputError: if `x` is not a matrix or is empty, or the shape of
            `position` does not match.

    Examples:
        >>> from meanfield.tokens import as_tokens
        >>> as_tokens([[0.0], [1.0]], position=[0.0, 1.0]).n
        2
    """
    states = float_array("x", x)
    if states.ndim != 2 or 0 in states.shape:
        raise InvalidInputError(
            "The tokens must form a non-empty matrix with one row per token; got shape "
            f"{states.shape}."
        )
    if position is None:
        return Tokens(states)
    places = float_array("position", position).astype(states.dtype)
    if places.shape != states.shape[:1]:
        raise InvalidInputError(
            f"`position` must hold one number for each of the {states.shape[0]} "
            f"tokens; got shape {places.shape}."
        )
    return Tokens(states, places)
