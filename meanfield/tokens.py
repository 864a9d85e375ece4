"""Tokens: the atoms that an attention looks at and moves."""

import equinox as eqx
from jaxtyping import Array, Float

from ._array import float_array
from ._typing import Numbers
from .errors import InvalidInputError


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


def as_tokens(x: Numbers, position: Numbers | None = None) -> Tokens:
    """Tokens of the rows of a matrix, with their positions if there are any.

    Raises:
        InvalidInputError: if `x` is no matrix, is empty, or `position` does not fit.

    Examples:
        >>> from meanfield.tokens import as_tokens
        >>> as_tokens([[0.0], [1.0]], position=[0.0, 1.0]).n
        2
    """
    states = float_array("x", x)
    if states.ndim != 2 or 0 in states.shape:
        raise InvalidInputError(
            "Tokens must be a non-empty matrix, one row for each token; got shape "
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
